"""A file of labels is checked against the corpus, and its refused rows are counted."""

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import CorpusConfig, LabelsConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.label_files import LabelCounts, write_with_labels
from sentemb_core.corpus.labels import write_labelled
from sentemb_core.corpus.table import read_documents
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.errors import (
    BadDataError,
    EmptyPairsError,
    MissingColumnError,
    UnknownLabelsError,
)
from tests.corpus.label_rows import SHARE, WHOLE, documents, labelled, pair, written


def test_a_file_gives_the_counterparts(tmp_path: Path):
    labels = [(3, "rain in spring"), (7, "It snows. 7"), (8, "one"), (8, "IT RAINS. 8")]
    labels.append((9, "It snows. 9!"))
    out = labelled(tmp_path, [pair(*label) for label in labels])
    found = {document.doc_id: document for document in read_documents(out / "documents.parquet")}
    assert len(found) == 200
    assert found["d3"].counterpart == "rain in spring"
    assert found["d4"].counterpart is None
    assert found["d7"].sentences == ["It rains. 7"], "the counterpart leaves the training text"
    assert found["d8"].sentences == ["It snows. 8"], "and so does a second one"
    assert found["d9"].sentences == ["It rains. 9"], "with an end mark or without"


def test_documents_of_no_label_are_told_as_such(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    out = labelled(tmp_path, [pair(k, f"text {k}") for k in range(150)])
    (tmp_path / "benchmark").mkdir()
    write_validation_pool(out / "documents.parquet", ValidationConfig(), tmp_path / "benchmark")
    assert "50 of 200 documents without a label: they ask nothing" in caplog.text


def test_the_counts_are_of_the_documents_that_were_written(tmp_path: Path):
    """Two of 400 sentences equal a counterpart, and go."""
    out = labelled(tmp_path, [pair(3, "rain"), pair(7, "It snows. 7"), pair(8, "IT RAINS. 8")])
    before = json.loads((tmp_path / "corpus" / "report.json").read_text())
    after = json.loads((out / "report.json").read_text())
    assert before["documents_with_counterpart"] == 0
    assert after["documents_with_counterpart"] == 3
    assert after["sentences"] == 398
    assert after["rows_read"] == before["rows_read"]


def test_a_label_that_is_no_text_is_told_as_such(tmp_path: Path):
    rows = [pair(k, f"text {k}") for k in range(200)]
    rows[5]["counterpart"] = 2024
    aside = pq.read_table(labelled(tmp_path, rows) / "rejected_labels.parquet").to_pydict()
    assert aside["reason"] == ["not-a-string"]


@pytest.mark.parametrize("count", [None, 7])
def test_of_several_labels_one_judges_and_all_are_learnt_however_the_file_is_ordered(
    tmp_path: Path, count: int | None
):
    """By hash, never by order: half of the counts end among the labels of one document."""
    rows = [pair(k, f"{text} {k}") for k in range(200) for text in ("first", "second", "third")]
    found = []
    for order, given in {"as it is": rows, "turned": rows[::-1]}.items():
        folder = tmp_path / order
        for name in ("benchmark", "labels"):
            (folder / name).mkdir(parents=True)
        out = labelled(folder, given)
        config = ValidationConfig(label_share=SHARE)
        write_validation_pool(out / "documents.parquet", config, folder / "benchmark")
        report = write_labelled(out, folder / "benchmark", SHARE, count, folder / "labels")
        judging = ValidationPool.open(folder / "benchmark").candidate_text
        found.append((judging, list(read_documents(folder / "labels" / "documents.parquet"))))
    assert found[0] == found[1]
    (judging, learnt), _ = found
    assert {str(text).split()[0] for text in judging} == {"first", "second", "third"}
    assert report.labels == len(learnt) == (count or 3 * len({one.doc_id for one in learnt}))


def test_a_few_bad_labels_are_counted_and_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    rows = [pair(k, f"{text} {k}") for k in range(200) for text in ("text", "other")]
    bad = [pair(999, "who?"), pair(5, " "), pair(6, "text 6")]
    out = labelled(tmp_path, [*rows, *bad])
    aside = pq.read_table(out / "rejected_labels.parquet").to_pydict()
    assert aside["reason"] == ["unknown-id", "empty", "duplicate-label"]
    assert aside["excerpt"] == ["d999", "", "text 6"]
    assert caplog.text.count("1 of 403 labels") == 3
    counts = LabelCounts.model_validate_json((out / "labels.json").read_text())
    assert counts.rows_read == 403
    assert counts.refused == {"unknown-id": 1, "empty": 1, "duplicate-label": 1}


def test_a_label_that_no_file_can_hold_is_refused_as_a_counterpart_of_the_corpus_is(
    tmp_path: Path,
):
    rows = [pair(k, f"text {k}") for k in range(200)]
    rows[5], rows[6] = pair(5, "half a \ud83d pair"), pair(6, "x" * 10_001)
    rows[7] = pair(7, "x" * 10_000)
    out = labelled(tmp_path, rows)
    aside = pq.read_table(out / "rejected_labels.parquet").to_pydict()
    assert aside["reason"] == ["encoding", "over-long"]
    assert aside["row"] == [5, 6]


def test_a_label_without_an_id_is_of_no_document_though_one_be_called_none(tmp_path: Path):
    corpus = [*documents(), documents(1)[0]._replace(doc_id="None", source_row=200)]
    lost = {"doc_id": None, "counterpart": "whose?"}
    out = labelled(tmp_path, [*(pair(k, f"text {k}") for k in range(200)), lost], corpus)
    aside = pq.read_table(out / "rejected_labels.parquet").to_pydict()
    assert (aside["reason"], aside["row"]) == (["bad-id"], [200])
    found = {one.doc_id: one.counterpart for one in read_documents(out / "documents.parquet")}
    assert found["None"] is None


def test_ids_that_are_no_whole_numbers_are_told_as_such(tmp_path: Path):
    rows = [pair(k, f"text {k}") | {"doc_id": float(k)} for k in range(3)]
    corpus = [row._replace(doc_id=str(row.source_row)) for row in documents()]
    with pytest.raises(BadDataError, match=r"3 of 3 without a usable id .*pandas writes 1\.0"):
        labelled(tmp_path, rows, corpus)


def test_a_missing_column_is_said_to_be_one_of_the_labels(tmp_path: Path):
    words = r"E104 The file of labels .*labels.jsonl: No column 'doc_id'.*labels\.id_column"
    with pytest.raises(MissingColumnError, match=words) as refused:
        labelled(tmp_path, [{"post": "d1", "counterpart": "text"}])
    assert str(refused.value).count("E104") == 1


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (
            pair(999, "who?"),
            UnknownLabelsError,
            r"E501 3 of 103 label ids .*first: 'd999'.* 'd0', 'd1'\); .*labels\.id_column",
        ),
        (pair(5, ""), BadDataError, r"E100 .*3 of 103 empty"),
        (
            pair(5, "text 5"),
            BadDataError,
            r"E100 .*3 of 103 equal to an earlier label \(first: row 100, 101, 102, .*keep one row",
        ),
    ],
)
def test_above_one_in_a_hundred_the_file_is_refused(tmp_path: Path, bad, error, words):
    rows = [pair(k, f"text {k}") for k in range(100)]
    with pytest.raises(error, match=words):
        labelled(tmp_path, [*rows, *[bad] * 3])


@pytest.mark.parametrize("bad", [pair(999, "who?"), pair(5, ""), pair(5, "text 5")])
def test_one_in_a_hundred_may_be_refused(tmp_path: Path, bad: dict[str, Any]):
    rows = [pair(k, f"text {k}") for k in range(198)]
    aside = labelled(tmp_path, [*rows, *[bad] * 2]) / "rejected_labels.parquet"
    assert pq.read_metadata(aside).num_rows == 2


def test_reasons_that_come_to_more_than_one_in_a_hundred_together_refuse_the_file(tmp_path: Path):
    rows = [pair(k, f"text {k}") for k in range(200)]
    words = (
        "E100 .*found 3 of 203: 1 with an id that no row of the corpus has, 1 empty, 1 equal to an"
    )
    with pytest.raises(BadDataError, match=words):
        labelled(tmp_path, [*rows, pair(999, "who?"), pair(5, " "), pair(6, "text 6")])


@pytest.fixture
def sampled(tmp_path: Path) -> Path:
    """30 of 100 documents, as a first look at much data takes them."""
    source = tmp_path / "corpus.jsonl"
    rows = [{"id": f"d{k}", "body": f"It rains {k}. It snows {k}."} for k in range(100)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "sample").mkdir()
    (tmp_path / "out").mkdir()
    config = read_from(tmp_path / "sample").model_copy(update={"max_documents": 30})
    write_documents(config, tmp_path / "sample")
    return tmp_path / "sample"


def read_from(folder: Path) -> CorpusConfig:
    source = folder.with_name("corpus.jsonl")
    return CorpusConfig(source=str(source), id_column="id", text_column="body")


def refused(sampled: Path, numbers: Iterable[int]) -> int:
    """How many labels of these documents are, beside the sample."""
    file = sampled.with_name("labels.jsonl")
    file.write_text("".join(json.dumps(pair(k, f"text {k}")) + "\n" for k in numbers))
    labels, out = LabelsConfig(source=str(file)), sampled.with_name("out")
    return write_with_labels(sampled, read_from(sampled), labels, out)


def test_labels_of_documents_that_the_run_left_out_are_counted_and_not_refused(
    sampled: Path, caplog: pytest.LogCaptureFixture
):
    assert refused(sampled, range(100)) == 70
    assert "left out: 70 labels of 70 documents; this run reads 30 documents of" in caplog.text


def test_labels_of_documents_that_are_too_short_for_the_run_are_left_out_like_others(
    tmp_path: Path,
):
    texts = ["It rains.", "It rains. It snows."] * 50
    rows = [json.dumps({"id": f"d{k}", "body": text}) for k, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    folder = tmp_path / "documents"
    for made in (folder, tmp_path / "out"):
        made.mkdir()
    write_documents(read_from(folder).model_copy(update={"min_sentences": 2}), folder)
    assert refused(folder, range(100)) == 50


def test_beside_those_that_were_left_out_one_in_a_hundred_may_be_foreign(sampled: Path):
    assert refused(sampled, [*range(100), 1_000]) == 71


@pytest.mark.parametrize(
    "numbers", [range(200), range(1_000, 1_050), [*range(3), *range(1_000, 1_060)]]
)
def test_more_unknown_ids_than_were_left_out_or_too_few_known_are_refused(sampled: Path, numbers):
    with pytest.raises(
        UnknownLabelsError, match=r"E501 .*of the 70 documents left out here do not"
    ):
        refused(sampled, numbers)


def test_unknown_ids_are_not_forgiven_for_the_rows_that_were_left_out(sampled: Path, caplog):
    """Of 100 labels 5 name nobody: no sample of 30 documents makes them its own."""
    with pytest.raises(UnknownLabelsError, match=r"E501 5 of 100 label ids .*first: 'd1000'"):
        refused(sampled, [*range(95), *range(1_000, 1_005)])
    assert "left out: " in caplog.text


def test_a_label_without_an_id_beside_a_sample_is_none_of_those_left_out(sampled: Path):
    source, file = sampled.with_name("corpus.jsonl"), sampled.with_name("labels.jsonl")
    named = {"id": "None", "body": "It rains on. It snows on."}
    source.write_text(f"{source.read_text()}{json.dumps(named)}\n", encoding="utf-8")
    read = [one.doc_id for one in read_documents(sampled / "documents.parquet")]
    labels = [{"doc_id": one, "counterpart": f"{k} {one}"} for one in read for k in range(5)]
    labels.append({"doc_id": None, "counterpart": "whose?"})
    file.write_text("".join(json.dumps(row) + "\n" for row in labels), encoding="utf-8")
    config, out = LabelsConfig(source=str(file)), sampled.with_name("out")
    assert write_with_labels(sampled, read_from(sampled), config, out) == 1
    aside = pq.read_table(out / "rejected_labels.parquet").to_pydict()
    assert aside["reason"] == ["bad-id"]


def test_labels_of_documents_that_were_all_left_out_are_refused(sampled: Path):
    read = {one.doc_id for one in read_documents(sampled / "documents.parquet")}
    with pytest.raises(UnknownLabelsError, match=r"E501 .* all of the 70 documents left out here"):
        refused(sampled, [k for k in range(100) if f"d{k}" not in read])


@pytest.mark.parametrize("named", [True, False])
def test_a_label_of_a_refused_row_is_left_out_and_one_of_nobody_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, named: bool
):
    """50 rows without a text and 5 that are broken; without a column of ids these have numbers."""
    texts = [f"It rains {k}. It snows {k}." if k >= 50 else "" for k in range(200)]
    lines = [json.dumps({"id": f"row-{k}", "body": text}) for k, text in enumerate(texts)]
    lines[195:] = ["{broken"] * 5
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    folder, out = tmp_path / "documents", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    config = read_from(folder).model_copy(update={} if named else {"id_column": None})
    write_documents(config, folder)
    file = tmp_path / "labels.jsonl"
    ids = [f"row-{k}" for k in range(0 if named else 20, 195)] + ["nobody"]
    ids += [] if named else [f"row-{k}" for k in range(195, 200)]
    labels = [{"doc_id": one, "counterpart": f"text of {one}"} for one in ids]
    file.write_text("".join(json.dumps(row) + "\n" for row in labels))
    write_with_labels(folder, config, LabelsConfig(source=str(file)), out)
    counts = LabelCounts.model_validate_json((out / "labels.json").read_text())
    assert counts.refused == {"left-out": 50 if named else 35, "unknown-id": 1}
    assert (
        f"1 of {len(ids)} labels refused: with an id that no row of the corpus has" in caplog.text
    )


def test_of_a_folder_every_file_has_its_id_whatever_is_in_it(tmp_path: Path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for k in range(20):
        (texts / f"{k}.txt").write_bytes(b"It rains. It snows." if k < 10 else b"\xe9")
    folder, out = tmp_path / "documents", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    write_documents(CorpusConfig(source=str(texts)), folder)
    file = tmp_path / "labels.csv"
    file.write_text("doc_id,counterpart\n" + "".join(f"{k}.txt,text {k}\n" for k in range(20)))
    labels = LabelsConfig(source=str(file))
    assert write_with_labels(folder, CorpusConfig(source=str(texts)), labels, out) == 10


def test_ids_that_only_look_like_those_of_the_corpus_are_told(tmp_path: Path):
    rows = [row._replace(doc_id=f"Süd {row.source_row}") for row in documents(9)]
    apart = {"doc_id": unicodedata.normalize("NFD", "Süd 5"), "counterpart": "text"}
    with pytest.raises(UnknownLabelsError, match=r"look like ids of the corpus.* in one form\.$"):
        labelled(tmp_path, [apart], rows)


def test_a_corpus_whose_ids_are_row_numbers_is_told_to_name_its_ids(tmp_path: Path):
    rows = [row._replace(doc_id=f"row-{row.source_row}") for row in documents(3)]
    with pytest.raises(UnknownLabelsError, match=r"Name the corpus's id column with --id-column"):
        labelled(tmp_path, [pair(1, "text")], rows)


def test_an_empty_file_is_refused(tmp_path: Path):
    with pytest.raises(BadDataError):
        labelled(tmp_path, [])


def test_a_file_of_a_head_alone_is_refused(tmp_path: Path):
    file = tmp_path / "labels.csv"
    file.write_text("doc_id,counterpart\n", encoding="utf-8")
    corpus = written(tmp_path / "corpus", documents(20))
    with pytest.raises(EmptyPairsError, match=r"E102 .*labels\.csv has no row: name another"):
        write_with_labels(corpus, WHOLE, LabelsConfig(source=str(file)), tmp_path)
