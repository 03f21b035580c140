"""Label files are checked against the corpus; refused rows are counted and kept aside."""

import json
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import CorpusConfig, LabelsConfig, ValidationConfig
from sentemb_core.corpus.checks import REASONS
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.labels import (
    LabelCounts,
    check_label_file,
    write_with_labels,
)
from sentemb_core.corpus.table import read_documents
from sentemb_core.corpus.validation_pool import write_validation_pool
from sentemb_core.errors import (
    BadDataError,
    EmptyPairsError,
    MissingColumnError,
    UnknownLabelsError,
)
from tests.corpus.label_rows import WHOLE, documents, fine_tuned, labelled, pair, written


def logged(caplog: pytest.LogCaptureFixture) -> list[object]:
    return [record.args for record in caplog.records if record.levelname == "WARNING"]


def rejected(out: Path) -> list[tuple[int, str]]:
    table = pq.read_table(out / "rejected_labels.parquet").to_pydict()
    return list(zip(table["row"], table["reason"], strict=True))


def test_labels_become_counterparts_and_leave_the_sentences(tmp_path: Path):
    labels = [(3, "rain in spring"), (7, "It snows. 7"), (8, "one"), (8, "IT RAINS. 8")]
    labels.append((9, "It snows. 9!"))
    out = labelled(tmp_path, [pair(*label) for label in labels])
    found = {document.doc_id: document for document in read_documents(out / "documents.parquet")}
    assert len(found) == 200
    assert found["d3"].counterpart == "rain in spring"
    assert found["d4"].counterpart is None
    assert found["d7"].sentences == ["It rains. 7"]
    assert found["d8"].sentences == ["It snows. 8"], "a second label counts as well"
    assert found["d9"].sentences == ["It rains. 9"], "with or without an end mark"
    before = json.loads((tmp_path / "corpus" / "report.json").read_text())
    after = json.loads((out / "report.json").read_text())
    assert [each["documents_with_counterpart"] for each in (before, after)] == [0, 4]
    assert (after["sentences"], after["rows_read"]) == (397, before["rows_read"])


def test_documents_without_a_label_are_logged(tmp_path: Path, caplog):
    out = labelled(tmp_path, [pair(k, f"text {k}") for k in range(150)])
    write_validation_pool(out / "documents.parquet", ValidationConfig(), tmp_path)
    assert ("label", 50, 200) in logged(caplog)


@pytest.mark.parametrize("count", [None, 7])
def test_of_several_labels_one_validates_and_all_are_trained_on(tmp_path: Path, count: int | None):
    """In any order of the file. Half of the counts end among the labels of one document."""
    rows = [pair(k, f"{text} {k}") for k in range(200) for text in ("first", "second", "third")]
    found = []
    for order, labels in {"as it is": rows, "reversed": rows[::-1]}.items():
        folder = tmp_path / order
        folder.mkdir()
        pool, trained_on, report = fine_tuned(folder, labelled(folder, labels), count)
        found.append((pool.candidate_text, trained_on))
    assert found[0] == found[1]
    (candidates, trained_on), _ = found
    assert {str(text).split()[0] for text in candidates} == {"first", "second", "third"}
    n_documents = len({document.doc_id for document in trained_on})
    assert report.labels == len(trained_on) == (count or 3 * n_documents)


def test_a_few_bad_labels_are_counted_and_kept_aside(tmp_path: Path, caplog):
    rows = [pair(k, f"{text} {k}") for k in range(400) for text in ("text", "other")]
    rows[10]["counterpart"] = 2024
    rows[12], rows[14] = pair(6, "half a \ud83d pair"), pair(7, "x" * 10_001)
    rows[16] = pair(8, "x" * 10_000)
    lost = {"doc_id": None, "counterpart": "whose?"}
    corpus = [*documents(400), documents(1)[0]._replace(doc_id="None", source_row=400)]
    bad = [pair(999, "who?"), pair(5, " "), pair(20, "text 20"), lost]
    out = labelled(tmp_path, [*rows, *bad], corpus)
    reasons = {10: "not-a-string", 12: "encoding", 14: "over-long", 800: "unknown-id"}
    reasons |= {801: "empty", 802: "duplicate-label", 803: "bad-id"}
    assert dict(rejected(out)) == reasons
    excerpts = pq.read_table(out / "rejected_labels.parquet")["excerpt"].to_pylist()
    assert excerpts[3:6] == ["d999", "", "text 20"]
    counted = [(1, "804 labels", REASONS[reason]) for reason in reasons.values()]
    assert sorted(logged(caplog)) == sorted(counted)
    counts = LabelCounts.model_validate_json((out / "labels.json").read_text())
    assert counts.rows_read == 804
    assert counts.refused == dict.fromkeys(reasons.values(), 1)
    found = {each.doc_id: each.counterpart for each in read_documents(out / "documents.parquet")}
    assert found["None"] is None, "a label without an id is not of the document `None`"


@pytest.mark.parametrize(
    ("bad", "error", "values"),
    [
        (
            pair(999, "who?"),
            UnknownLabelsError,
            r"E501 .*3 of 201 .*'d999'; .*'d0', 'd1'\).*labels\.id_column",
        ),
        (pair(5, ""), BadDataError, rf"E100 .*3 of 201 {REASONS['empty']}"),
        (
            pair(5, "text 5"),
            BadDataError,
            rf"E100 .*3 of 201 {REASONS['duplicate-label']} .*row 198, 199, 200, .*from 0",
        ),
    ],
)
def test_above_one_percent_of_one_reason_the_file_is_refused(tmp_path: Path, bad, error, values):
    rows = [pair(k, f"text {k}") for k in range(198)]
    assert len(rejected(labelled(tmp_path, [*rows, *[bad] * 2]))) == 2
    (tmp_path / "more").mkdir()
    with pytest.raises(error, match=values):
        labelled(tmp_path / "more", [*rows, *[bad] * 3])


def test_above_one_percent_of_all_reasons_the_file_is_refused(tmp_path: Path):
    rows = [pair(k, f"text {k}") for k in range(200)]
    each = ", ".join(f"1 {REASONS[name]}" for name in ("unknown-id", "empty", "duplicate-label"))
    with pytest.raises(BadDataError, match=f"E100 .*3 of 203: {each}"):
        labelled(tmp_path, [*rows, pair(999, "who?"), pair(5, " "), pair(6, "text 6")])


@pytest.mark.parametrize(
    ("of_corpus", "of_label", "way_out"),
    [
        ("Süd {}", unicodedata.normalize("NFD", "Süd 1"), {"NFC", "NFD"}),
        ("row-{}", "d1", {"--id-column"}),
        ("{}", "d1", {"--id-column", "labels.id_column"}),
    ],
    ids=["accents", "row numbers", "others"],
)
def test_unknown_ids_are_e501(tmp_path: Path, of_corpus: str, of_label: str, way_out: set[str]):
    rows = [row._replace(doc_id=of_corpus.format(row.source_row)) for row in documents(9)]
    with pytest.raises(UnknownLabelsError, match=r"E501 .*1 of 1 ") as caught:
        labelled(tmp_path, [{"doc_id": of_label, "counterpart": "text"}], rows)
    assert repr(of_label) in str(caught.value)
    names = re.findall(r"NF[CD]|--id-column|labels\.id_column", str(caught.value))
    assert set(names) == way_out


def test_ids_that_are_floats_are_e100(tmp_path: Path):
    rows = [pair(k, f"text {k}") | {"doc_id": float(k)} for k in range(3)]
    with pytest.raises(BadDataError, match=r"3 of 3 .*1\.0"):
        labelled(tmp_path, rows, [row._replace(doc_id=str(row.source_row)) for row in documents()])


def test_a_missing_column_of_the_label_file_is_e104(tmp_path: Path):
    with pytest.raises(MissingColumnError) as caught:
        labelled(tmp_path, [{"post": "d1", "counterpart": "text"}])
    assert str(caught.value).count("E104") == 1
    assert re.search(r"labels\.jsonl: .*'doc_id'.*labels\.id_column", str(caught.value))
    with pytest.raises(MissingColumnError):
        check_label_file(LabelsConfig(source=str(tmp_path / "labels.jsonl")))


@pytest.mark.parametrize("column", ["doc_id", "counterpart"])
def test_a_missing_label_column_names_its_own_option(tmp_path: Path, column: str):
    label = {"doc_id": "d1", "counterpart": "text"}
    option = "labels.id_column" if column == "doc_id" else "labels.counterpart_column"
    with pytest.raises(MissingColumnError) as caught:
        labelled(tmp_path, [{name: value for name, value in label.items() if name != column}])
    assert f"'{column}' ({option}):" in str(caught.value)
    assert not re.search(r"--\w+-column", str(caught.value))


@pytest.mark.parametrize(
    ("text", "error", "values"),
    [
        ("", BadDataError, r"labels\.csv has 0 bytes"),
        ("doc_id,counterpart\n", EmptyPairsError, r"E102 .*labels\.csv .*--labels"),
    ],
)
def test_a_label_file_without_rows_is_refused(tmp_path: Path, text: str, error, values: str):
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="utf-8")
    corpus = written(tmp_path / "corpus", documents(20))
    with pytest.raises(error, match=values):
        write_with_labels(corpus, WHOLE, LabelsConfig(source=str(file)), tmp_path)


def read_corpus(folder: Path, rows: list[str], **options: Any) -> CorpusConfig:
    """Write the rows as a corpus and read it into `folder`/documents."""
    (folder / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    for name in ("documents", "out"):
        (folder / name).mkdir()
    columns = {"id_column": "id", "text_column": "body"} | options
    config = CorpusConfig(source=str(folder / "corpus.jsonl"), **columns)
    write_documents(config, folder / "documents")
    return config


def refused(folder: Path, config: CorpusConfig, ids: Iterable[str]) -> int:
    """Write labels with these ids; return how many are refused or left out."""
    file = folder / "labels.jsonl"
    labels = ({"doc_id": doc_id, "counterpart": f"{k} {doc_id}"} for k, doc_id in enumerate(ids))
    file.write_text("".join(json.dumps(label) + "\n" for label in labels))
    labels = LabelsConfig(source=str(file))
    return write_with_labels(folder / "documents", config, labels, folder / "out")


def ids(*numbers: Iterable[int]) -> list[str]:
    return [f"d{k}" for each in numbers for k in each]


@pytest.fixture
def sample(tmp_path: Path) -> CorpusConfig:
    """30 of 100 documents."""
    rows = [json.dumps({"id": f"d{k}", "body": f"It rains {k}. It snows {k}."}) for k in range(100)]
    return read_corpus(tmp_path, rows, max_documents=30)


def test_labels_of_documents_outside_the_sample_are_left_out(tmp_path: Path, sample, caplog):
    assert refused(tmp_path, sample, ids(range(100))) == 70
    assert (70, "70 documents", "30 documents", 70) in logged(caplog)
    assert refused(tmp_path, sample, ids(range(100), [1_000])) == 71, "1 % may be unknown"
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.write('\n{"id": "None", "body": "It rains. On."}')
    read = [each.doc_id for each in read_documents(tmp_path / "documents" / "documents.parquet")]
    assert refused(tmp_path, sample, [*read * 5, None]) == 1
    assert rejected(tmp_path / "out") == [(150, "bad-id")], "not the left-out document `None`"


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        ([range(200)], r"100 of 200 .*'d100'"),
        ([range(1_000, 1_050)], r"50 of 50 .*'d1000'"),
        ([range(3), range(1_000, 1_060)], r"60 of 63 .*'d1000'"),
        # left-out rows do not excuse unknown ids
        ([range(95), range(1_000, 1_005)], r"5 of 100 .*'d1000'"),
    ],
)
def test_unknown_ids_beside_a_sample_are_e501(tmp_path: Path, sample, numbers, values, caplog):
    with pytest.raises(UnknownLabelsError, match=f"E501 .*70 documents .*{values}"):
        refused(tmp_path, sample, ids(*numbers))
    left_out = {*ids(*numbers)} & {*ids(range(100))}
    assert any("left out" in message for message in caplog.messages) == bool(left_out)


def test_labels_of_left_out_documents_only_are_e501(tmp_path: Path, sample):
    read = {each.doc_id for each in read_documents(tmp_path / "documents" / "documents.parquet")}
    with pytest.raises(
        UnknownLabelsError, match=r"E501 .*labels\.jsonl .* 70 documents .*--labels"
    ):
        refused(tmp_path, sample, [doc_id for doc_id in ids(range(100)) if doc_id not in read])


def test_labels_of_short_documents_are_left_out(tmp_path: Path):
    texts = ["It rains.", "It rains. It snows."] * 50
    rows = [json.dumps({"id": f"d{k}", "body": text}) for k, text in enumerate(texts)]
    config = read_corpus(tmp_path, rows, min_sentences=2)
    assert refused(tmp_path, config, ids(range(100))) == 50


@pytest.mark.parametrize("named", [True, False])
def test_labels_of_refused_rows_are_left_out(tmp_path: Path, named: bool, caplog):
    """50 rows without a text and 5 broken rows, which have an id only as row numbers."""
    texts = [f"It rains {k}. It snows {k}." if k >= 50 else "" for k in range(200)]
    rows = [json.dumps({"id": f"row-{k}", "body": text}) for k, text in enumerate(texts)]
    rows[195:] = ["{broken"] * 5
    config = read_corpus(tmp_path, rows, id_column="id" if named else None)
    labels = [f"row-{k}" for k in range(0 if named else 20, 195 if named else 200)]
    refused(tmp_path, config, [*labels, "nobody"])
    counts = LabelCounts.model_validate_json((tmp_path / "out" / "labels.json").read_text())
    assert counts.refused == {"left-out": 50 if named else 35, "unknown-id": 1}
    assert (1, f"{len(labels) + 1} labels", REASONS["unknown-id"]) in logged(caplog)


def test_all_files_of_a_folder_have_their_ids(tmp_path: Path):
    for name in ("texts", "documents", "out"):
        (tmp_path / name).mkdir()
    for k in range(20):
        (tmp_path / f"texts/{k}.txt").write_bytes(b"It rains. It snows." if k < 10 else b"\xe9")
    config = CorpusConfig(source=str(tmp_path / "texts"))
    write_documents(config, tmp_path / "documents")
    assert refused(tmp_path, config, [f"{k}.txt" for k in range(20)]) == 10
