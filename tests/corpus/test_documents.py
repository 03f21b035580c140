"""What is kept, dropped, drawn and refused; and that the bytes are always the same."""

import hashlib
import json
import logging
import random
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core import schemas
from sentemb_core.corpus import documents as documents_module
from sentemb_core.corpus.documents import CorpusReport
from sentemb_core.corpus.sentences import same_text
from sentemb_core.errors import DuplicateIdError, EmptyCorpusError, EmptyPairsError
from tests.corpus.made import jsonl, quarantined, read, texts


def rows_add_up(report: CorpusReport) -> bool:
    refused = sum(report.quarantined.values())
    return report.rows_read == report.documents + refused + report.left_out + report.not_drawn


def test_repeated_sentences_and_counterparts_leave_the_document(tmp_path: Path) -> None:
    row = {
        "title": "The  Title",
        "sentences": ["One.", "the title", "Two.", "One.", " THE TITLE ", "One"],
    }
    source = jsonl(tmp_path / "a.jsonl", [row])
    report, [document], _ = read(source, counterpart_column="title")
    assert document.sentences == ["One.", "Two.", "One"]
    assert document.counterpart == "The  Title"
    assert (report.duplicate_sentences, report.counterpart_sentences) == (1, 2)
    assert "the title" in read(source)[1][0].sentences


def test_no_counterpart_is_among_its_sentences(tmp_path: Path) -> None:
    rows = [{**row, "text": f"{row['title'].upper()}\n\n{row['text']}"} for row in texts(50)]
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert report.counterpart_sentences == 50
    for document in documents:
        assert same_text(document.counterpart) not in map(same_text, document.sentences)


@pytest.mark.parametrize("end", ["", ".", "!"])
def test_a_title_on_the_first_line_is_no_part_of_the_text(tmp_path: Path, end: str) -> None:
    rows = [
        {"title": "Cats sleep", "text": f" cats  sleep{end}\nThey sleep all day. And all night."},
        {"title": "Cats sleep", "text": "Cats sleep a lot\nThey sleep all day."},
        {"title": "Cats sleep", "text": "Cats sleep.\n"},
    ]
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert documents[0].sentences == ["They sleep all day.", "And all night."]
    assert documents[1].sentences == ["Cats sleep a lot They sleep all day."]
    assert report.counterpart_sentences == 1


def test_nor_is_it_where_the_title_alone_has_an_end_mark(tmp_path: Path) -> None:
    row = {"title": "Do cats sleep?", "text": "Do cats sleep\nThey do. All day."}
    report, [document], _ = read(jsonl(tmp_path / "a.jsonl", [row]), counterpart_column="title")
    assert (document.sentences, report.counterpart_sentences) == (["They do.", "All day."], 1)


def test_beside_ready_sentences_no_title_is_looked_for_in_the_text(tmp_path: Path) -> None:
    row = {"title": "Cats sleep", "text": "Cats sleep\nAll day.", "lines": ["They sleep.", "So."]}
    report, [document], _ = read(
        jsonl(tmp_path / "a.jsonl", [row]),
        counterpart_column="title", text_column="text", sentences_column="lines",
    )  # fmt: skip
    assert (document.sentences, report.counterpart_sentences) == (["They sleep.", "So."], 0)


def test_empty_counterparts_are_none(tmp_path: Path) -> None:
    rows = [{"text": "A b. C d.", "title": title} for title in (None, "", "  ", "T")]
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert [document.counterpart for document in documents] == [None, None, None, "T"]
    assert report.documents_with_counterpart == 1


@pytest.mark.parametrize("nothing", ["NULL", "null", " NaN ", "N/A", "None", "\\N", "#N/A"])
def test_what_a_database_writes_for_nothing_is_no_text_and_no_counterpart(
    tmp_path: Path, nothing: str
) -> None:
    rows = [*texts(9), {"text": nothing, "title": "T"}, {"text": "A b. C d.", "title": nothing}]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert report.quarantined == {"empty": 1}
    assert quarantined(out)[0]["excerpt"] == nothing
    assert documents[-1].counterpart is None
    assert documents[-1].sentences == ["A b.", "C d."]


def test_a_text_that_speaks_of_nothing_is_one(tmp_path: Path) -> None:
    _, [found], _ = read(jsonl(tmp_path / "a.jsonl", [{"text": "None came. NULL is a value."}]))
    assert found.sentences == ["None came.", "NULL is a value."]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<p>One is here.</p><br/> <p>Two.", True),
        ("One <A HREF='x'>link</A> here. Two.", True),
        ("If a < b and c > d, then stop. Two.", False),
        ("Write to <me@here.org>. Two.", False),
    ],
)
def test_html_in_the_texts_is_warned_about(tmp_path: Path, caplog, text: str, told: bool) -> None:
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", [*texts(40), {"text": text}]))
    assert report.rows_with_tags == told
    assert ("1 of 41 rows hold HTML tags" in caplog.text) is told
    assert text.split()[0] in documents[-1].sentences[0]


@pytest.mark.parametrize("at_once", [3, 1_024])
def test_repeated_documents_are_kept_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_ROWS", at_once)
    rows = [{"text": "One. Two."}, {"text": "Three. Four."}, {"text": " One.  Two. "}] * 4
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", rows))
    assert (len(documents), report.duplicate_documents) == (12, 10)
    assert report.duplicate_document_ids == ["row-2", "row-3", "row-4", "row-5", "row-6"]


def test_short_documents_are_left_out_and_long_ones_cut(tmp_path: Path) -> None:
    rows = [{"text": " ".join(f"This is {j}." for j in range(n))} for n in (1, 2, 3, 8)]
    source = jsonl(tmp_path / "a.jsonl", rows)
    report, documents, _ = read(source, min_sentences=3, max_sentences=5)
    assert [len(document.sentences) for document in documents] == [3, 5]
    assert (report.left_out, report.documents, report.sentences) == (2, 2, 8)
    assert rows_add_up(report)


def test_the_first_of_two_equal_ids_is_kept(tmp_path: Path) -> None:
    rows = [{"id": k % 3, "text": f"One of {k}. Two of {k}."} for k in range(7)]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), id_column="id")
    assert [(document.doc_id, document.source_row) for document in documents] == [
        ("0", 0), ("1", 1), ("2", 2),
    ]  # fmt: skip
    assert report.quarantined == {"duplicate-id": 4}
    assert [row["excerpt"] for row in quarantined(out)] == ["0", "1", "2", "0"]


def test_equal_ids_stop_the_reading_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_ROWS", 2)
    rows = [{"id": f"d{k % 5}", "text": f"One of {k}. Two."} for k in range(20)]
    source = jsonl(tmp_path / "a.jsonl", rows)
    starts = [0, *accumulate(len(line) for line in source.read_bytes().splitlines(True))]
    places = [f"a.jsonl, line {k + 1}, byte {starts[k]}" for k in range(8)]
    message = "; ".join(f"'d{k}' in {places[k]} and in {places[k + 5]}" for k in range(3))
    with pytest.raises(DuplicateIdError, match=rf"E105 .* found again {message}\. Lines are"):
        read(source, id_column="id", on_duplicate="error")
    one = jsonl(tmp_path / "b.jsonl", [*rows[:5], rows[3]])
    with pytest.raises(DuplicateIdError, match=r"found again 'd3' in b.jsonl, line 4, byte .*\. "):
        read(one, id_column="id", on_duplicate="error")


PLACES = {
    "a.csv": ("a.csv, line 2", "a.csv, line 5"),
    "a.json": ("a.json, element 0, byte 1", "a.json, element 2, byte 72"),
    "a.parquet": ("a.parquet, row 0", "a.parquet, row 2"),
}


@pytest.mark.parametrize("name", PLACES)
def test_an_equal_id_is_told_with_both_its_places_in_every_format(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"id": id_, "text": "One.\nTwo."} for id_ in ("é", "b", "é")]
    source = tmp_path / name
    if name == "a.csv":
        source.write_text('id,text\né,One. Two.\nb,"One.\nTwo."\né,One. Two.\n')
    elif name == "a.json":
        source.write_text(json.dumps(rows, ensure_ascii=False))
    else:
        pq.write_table(pa.Table.from_pylist(rows), source)
    first, again = PLACES[name]
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(DuplicateIdError, match=f"found again 'é' in {first} and in {again}. Lines"),
    ):
        read(source, id_column="id", on_duplicate="error")
    assert caplog.text.count("guessed") == 1


def test_the_place_of_a_row_that_went_meanwhile_is_its_number(tmp_path: Path, monkeypatch) -> None:
    source = jsonl(tmp_path / "a.jsonl", texts(1) * 2)
    monkeypatch.setattr(documents_module, "places", lambda config, numbers: {})
    with pytest.raises(DuplicateIdError, match=r"found again 'd0' in row 0 and in a\.jsonl, li"):
        read(source, id_column="id", on_duplicate="error")


def test_a_sample_is_drawn_by_the_hash_of_the_id(tmp_path: Path) -> None:
    rows = texts(300)
    report, documents, out = read(
        jsonl(tmp_path / "a.jsonl", rows), id_column="id", max_documents=40
    )
    ids = [row["id"] for row in rows]
    lowest = set(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:40])
    assert [document.doc_id for document in documents] == [name for name in ids if name in lowest]
    assert (report.documents, report.not_drawn, report.sentences) == (40, 260, 120)
    assert rows_add_up(report)
    assert sorted(path.name for path in out.iterdir()) == [
        "documents.parquet", "quarantine.parquet", "report.json",
    ]  # fmt: skip


def test_a_sample_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = texts(200)
    drawn = []
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        source = jsonl(tmp_path / f"{seed}.jsonl", rows)
        _, documents, _ = read(source, id_column="id", max_documents=30)
        drawn.append({document.doc_id for document in documents})
        places = [document.source_row for document in documents]
        assert places == sorted(places)
    assert drawn[0] == drawn[1] == drawn[2]


def test_a_sample_larger_than_the_corpus_is_the_corpus(tmp_path: Path) -> None:
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", texts(5)), max_documents=50)
    assert (len(documents), report.not_drawn) == (5, 0)


def test_equal_input_gives_equal_bytes_wherever_it_lies(tmp_path: Path) -> None:
    rows = [*texts(50), {"text": 3}, b"broken", {"text": "One. One. Two."}]
    digests = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        _, _, out = read(jsonl(tmp_path / folder / "a.jsonl", rows), max_documents=20)
        digests.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert digests[0] == digests[1]


def test_the_table_has_its_schema_and_bounded_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb_core.corpus.table.BATCH_ROWS", 8)
    monkeypatch.setattr("sentemb_core.corpus.table.GROUP_ROWS", 16)
    _, documents, out = read(jsonl(tmp_path / "a.jsonl", texts(100)))
    with pq.ParquetFile(out / "documents.parquet") as file:
        assert file.schema_arrow.equals(schemas.DOCUMENTS)
        groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
    assert groups == [16] * 6 + [4]
    monkeypatch.setattr("sentemb_core.corpus.table.BATCH_CHARACTERS", 150)
    monkeypatch.setattr("sentemb_core.corpus.table.GROUP_BYTES", 1)
    with pq.ParquetFile(read(tmp_path / "a.jsonl")[2] / "documents.parquet") as file:
        assert file.metadata.row_group(0).num_rows == 4  # 3 sentences of 16 characters each
    assert [document.source_row for document in documents] == list(range(100))
    assert pq.read_schema(out / "quarantine.parquet").equals(schemas.QUARANTINE)


def test_the_report_is_written_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        report, _, out = read(jsonl(tmp_path / "a.jsonl", [*texts(9), {"text": "Alone."}, b"x"]))
    assert CorpusReport.model_validate_json((out / "report.json").read_text()) == report
    assert "10 documents, 28 sentences from 11 rows; quarantined: 1 broken-row" in caplog.text
    assert "1 of 10 documents of one sentence: methods that pair two " in caplog.text
    assert "learn nothing from them and take no negative from them. They are enc" in caplog.text


def test_an_empty_corpus_says_what_became_of_its_rows(tmp_path: Path) -> None:
    rows = [{"text": ""}] * 3 + [b'{"text": "\xff"}'] * 2
    source = jsonl(tmp_path / "a.jsonl", rows)
    out = tmp_path / "out-0"
    message = (
        r"^E101 corpus has 0 usable documents \(5 read: 3 empty, 2 of another encoding\) - see "
        + str(out / "quarantine.parquet")
        + r"\. Name the encoding by --encoding$"
    )
    with pytest.raises(EmptyCorpusError, match=message) as caught:
        read(source)
    assert caught.value.exit_code == 3
    assert len(quarantined(out)) == 5
    assert json.loads((out / "report.json").read_text())["rows_read"] == 5


@pytest.mark.parametrize(
    ("row", "columns", "way"),
    [
        (b'{"data": [', {}, "JSON has an object a line, or one array of objects; a row of a CSV"),
        ({"text": ["One.", "Two."]}, {}, r"lists of strings \(--sentences-column\)$"),
        ({"text": "One. Two."}, {"text_column": None, "sentences_column": "text"}, "--text-column"),
        ({"text": "One.", "title": 1984}, {"counterpart_column": "title"}, "--counterpart-column"),
        ({"text": "One.", "id": 0.5}, {"id_column": "id"}, r"whole numbers \(--id-column; without"),
    ],
)
def test_what_ails_every_row_is_told_with_a_way_out(
    tmp_path: Path, row: bytes | dict[str, object], columns: dict[str, str | None], way: str
) -> None:
    with pytest.raises(EmptyCorpusError, match=way):
        read(jsonl(tmp_path / "a.jsonl", [row]), **columns)


def test_documents_left_out_are_named_when_none_is_left(tmp_path: Path) -> None:
    with pytest.raises(EmptyCorpusError, match=r"\(4 read: 4 with too few sentences\)"):
        read(jsonl(tmp_path / "a.jsonl", texts(4)), min_sentences=9)


def test_a_corpus_of_lone_sentences_cannot_give_pairs(tmp_path: Path) -> None:
    alone = [{"text": f"Sentence {k}."} for k in range(99)]
    pair = [{"text": "One. Two."}]
    with pytest.raises(EmptyPairsError, match=r"E102 .* 99 of 100 documents have one"):
        read(jsonl(tmp_path / "a.jsonl", alone + pair))
    with pytest.raises(EmptyPairsError, match=r"two sentences: 1 of 1 document has one\. Check"):
        read(jsonl(tmp_path / "one.jsonl", alone[:1]))
    report, _, _ = read(jsonl(tmp_path / "b.jsonl", alone[:49] + pair))
    assert (report.documents, report.documents_with_pairs) == (50, 1)
