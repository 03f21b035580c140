"""Every format gives the same documents; what cannot be read says so."""

import csv
import gzip
import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus import json_rows, readers
from sentemb_core.corpus import source as files
from sentemb_core.corpus.columns import Row
from sentemb_core.corpus.readers import plain_text
from sentemb_core.errors import (
    EmptyCorpusError,
    MissingColumnError,
    UnreadableSourceError,
    UsageError,
)
from tests.corpus.made import jsonl, quarantined, read, texts

ROWS = texts(5)
COLUMNS = {"id_column": "id", "counterpart_column": "title", "text_column": "text"}
WANTED = [
    (row["id"], [f"Sentence {j} of {k}." for j in range(3)], row["title"], k)
    for k, row in enumerate(ROWS)
]


def as_jsonl(folder: Path) -> Path:
    return jsonl(folder / "rows.jsonl", ROWS)


def as_ndjson_with_bom(folder: Path) -> Path:
    path = jsonl(folder / "rows.ndjson", ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    return path


def as_gzipped_jsonl(folder: Path) -> Path:
    path = folder / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(as_jsonl(folder).read_bytes()))
    return path


def as_json_array(folder: Path) -> Path:
    path = folder / "rows.json"
    path.write_text("\ufeff" + json.dumps(ROWS, indent=2))
    return path


def as_json_lines(folder: Path) -> Path:
    return jsonl(folder / "rows.json", ROWS)


def as_csv(folder: Path) -> Path:
    return _table(folder / "rows.csv", "excel")


def as_tsv(folder: Path) -> Path:
    return _table(folder / "rows.tsv", "excel-tab")


def as_gzipped_csv(folder: Path) -> Path:
    path = folder / "rows.csv.gz"
    path.write_bytes(gzip.compress(as_csv(folder).read_bytes()))
    return path


def as_parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet", row_group_size=2)
    return folder / "rows.parquet"


def as_parquet_with_categories(folder: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(1, "title", table["title"].dictionary_encode())
    pq.write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


def as_saved_dataset(folder: Path) -> Path:
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(folder / "saved")
    return folder / "saved"


def as_saved_splits(folder: Path) -> Path:
    from datasets import Dataset, DatasetDict

    DatasetDict({"train": Dataset.from_list(ROWS)}).save_to_disk(folder / "saved")
    return folder / "saved"


def _table(path: Path, dialect: str) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, ["id", "title", "text"], dialect=dialect)
        writer.writeheader()
        writer.writerows(ROWS)
    return path


@pytest.mark.parametrize(
    "write",
    [
        as_jsonl, as_ndjson_with_bom, as_gzipped_jsonl, as_json_array, as_json_lines, as_csv,
        as_tsv, as_gzipped_csv, as_parquet, as_parquet_with_categories, as_saved_dataset,
        as_saved_splits,
    ],
)  # fmt: skip
def test_every_format_gives_the_same_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write
) -> None:
    monkeypatch.setattr(readers, "READ_ROWS", 2)
    report, documents, _ = read(write(tmp_path), **COLUMNS)
    assert [tuple(document) for document in documents] == WANTED
    assert (report.rows_read, report.quarantined) == (5, {})


def test_a_name_of_the_hub_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = {}

    def load(name: str, *, streaming: bool):
        asked.update(name=name, streaming=streaming)
        return {"train": ROWS}

    monkeypatch.setattr(datasets, "load_dataset", load)
    rows = list(readers.rows(CorpusConfig(source="some/name", **COLUMNS)))
    assert [row.doc_id for row in rows] == [row["id"] for row in ROWS]
    assert asked == {"name": "some/name", "streaming": True}


def test_a_name_of_the_hub_without_a_network_says_the_way_out() -> None:
    with pytest.raises(UnreadableSourceError, match=r"E103 .*OFFLINE is 1.*HF_HUB_OFFLINE=0"):
        list(readers.rows(CorpusConfig(source="nobody/has-this-data-set")))


def test_a_saved_dictionary_of_splits_names_them(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    splits = {"train": Dataset.from_list(ROWS[:2]), "test": Dataset.from_list(ROWS[2:])}
    DatasetDict(splits).save_to_disk(tmp_path / "saved")
    with pytest.raises(UnreadableSourceError, match=r"\['train', 'test'\]"):
        read(tmp_path / "saved", **COLUMNS)
    with pytest.raises(UnreadableSourceError, match=r"\['train', 'test'\], and no 'dev'\. Name"):
        read(tmp_path / "saved", split="dev", **COLUMNS)
    assert read(tmp_path / "saved", split="test", **COLUMNS)[0].documents == 3


def test_a_folder_of_texts_takes_paths_as_ids(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "b.txt").write_bytes(b"\xef\xbb\xbfOne here. Two here.")
    (folder / "a.md").write_text("# Head\nSome *words*. More [linked](x.html) words.\n")
    (folder / "deep" / "c.TXT").write_text("Third one. And more.")
    (folder / "note.pdf").write_text("not read")
    (folder / ".hidden" / "d.txt").write_text("not read")
    _, documents, _ = read(folder)
    assert [document.doc_id for document in documents] == ["a.md", "b.txt", "deep/c.TXT"]
    assert documents[0].sentences == ["Head", "Some words.", "More linked words."]
    assert documents[1].sentences == ["One here.", "Two here."]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    folder, secret = tmp_path / "texts", tmp_path / "secret"
    folder.mkdir()
    secret.mkdir()
    (secret / "key.txt").write_text("A secret. A key.")
    (folder / "own.txt").write_text("An own text. Of two sentences.")
    (folder / "link.txt").symlink_to(secret / "key.txt")
    (folder / "linked").symlink_to(secret)
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert [document.doc_id for document in read(folder)[1]] == ["own.txt"]


def test_file_names_that_are_no_text_are_quarantined(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "good.txt").write_text("A text. Of two.")
    Path(str(folder) + "/bad\udcff.txt").write_text("A text. Of two more.")
    report, _, out = read(folder)
    assert report.quarantined == {"bad-id": 1}
    assert quarantined(out)[0]["where"] == "bad\\xff.txt"


def test_markdown_loses_its_marks_and_keeps_its_words() -> None:
    text = (
        "---\ntitle: x\n---\n## A head ##\nWords **bold**, `code`.\n* item one\n* item two\n"
        "![picture](p.png)\n```python\nprint()\n```\n> A quote.\n<!-- gone -->\n"
    )
    lines = [line for line in plain_text(text).splitlines() if line.strip()]
    assert lines == ["A head", "Words bold, code.", "item one", "item two", "A quote."]


def test_markdown_is_read_as_its_readers_see_it() -> None:
    text = (
        'A head\n======\nA [link](a.html "title"), a [**named** one][n], ~~nothing~~.\n\n[n]: b\n\n'
        "    Indented words.\n\n<div align=center>\nWords in <b>HTML</b>\n</div>\n\n"
        "| one | two |\n|---|---|\n| three | four |\n\n"
        "AT&amp;T says \\*hello\\*.<!-- gone --> A *b_c* d\n"
    )
    assert plain_text(text).split("\n\n") == [
        *("A head", "A link, a named one, nothing.", "Indented words.", "Words in  HTML"),
        *("one", "two", "three", "four", "AT&T says *hello*. A b_c d"),
    ]


def test_a_break_parts_words_and_a_rule_at_the_top_is_no_front_matter() -> None:
    assert plain_text("foo<br>bar<BR />baz").split() == ["foo", "bar", "baz"]
    assert plain_text("---\n\nThe first.\n\n---\n\nThe second.\n") == "The first.\n\nThe second."
    assert plain_text("---\n# A slide\n---\nIts text.\n") == "A slide\n\nIts text."


@pytest.mark.parametrize("mark", ["<!-- ", "![", "[a](", "**a ", "> ", "a <!-- b\n"])
def test_markdown_of_marks_that_never_end_is_read_in_one_pass(mark: str) -> None:
    """By patterns that look for each one's end, this took minutes."""
    assert plain_text(f"{mark * 50_000}\n\nThe end.").endswith("The end.") is (mark != "<!-- ")


def test_markdown_with_a_nul_is_refused_like_any_text(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "good.md").write_text("A text. Of two.")
    (folder / "bad.md").write_text("A text.\0 Of two more.")
    assert read(folder)[0].quarantined == {"nul": 1}


def test_sentence_lists_are_kept_as_they_are(tmp_path: Path) -> None:
    row = {"sentences": ["  One. Still one. ", "", "two", None], "text": "Not taken. At all."}
    _, documents, _ = read(jsonl(tmp_path / "a.jsonl", [row]))
    assert documents[0].sentences == ["One. Still one.", "two"]
    assert documents[0].doc_id == "row-0"


def test_a_csv_cell_may_hold_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('titles\n"[""One"", ""Two""]"\nnot a list\n')
    report, documents, _ = read(path)
    assert documents[0].sentences == ["One", "Two"]
    assert report.quarantined == {"not-a-string": 1}


def test_quoted_csv_cells_span_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"One.\n\nTwo, ""quoted""."\n\n2,"Three. Four."\n')
    _, documents, _ = read(path, id_column="id")
    assert [found.sentences for found in documents] == [['One.', 'Two, "quoted".'],
                                                        ["Three.", "Four."]]  # fmt: skip


@pytest.mark.parametrize("name", ["a.csv", "labels of mine.csv"])
def test_a_spreadsheets_semicolons_part_its_cells(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('\ufeffid;title;text\n1;"A; b";"One, two. Three."\n2;C;Four. Five.\n', "utf-8")
    _, documents, _ = read(path, id_column="id", counterpart_column="title")
    assert [(found.doc_id, found.counterpart) for found in documents] == [("1", "A; b"), ("2", "C")]
    assert documents[0].sentences == ["One, two.", "Three."]


@pytest.mark.parametrize(
    ("rows", "id_column", "sentences"),
    [
        ("id\ttext\n1\tOne, two. Three; four.\n", "id", ["One, two.", "Three; four."]),
        ("id;old,text\n1,One. Two.\n", "id;old", ["One.", "Two."]),
        ('id;"name, first";text\n1;Ann;One. Two.\n', "id", ["One.", "Two."]),
    ],
    ids=[
        "the tabs of a database",
        "a semicolon beside commas is a letter",
        "a comma inside quotes is a letter",
    ],
)
def test_the_first_mark_that_a_header_has_parts_the_cells(
    tmp_path: Path, rows: str, id_column: str, sentences: list[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(rows)
    _, documents, _ = read(path, id_column=id_column)
    assert documents[0].sentences == sentences


def test_a_header_of_one_column_says_what_parts_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id|body\n1|One. Two.\n")
    with pytest.raises(MissingColumnError, match=r"\['id\|body'\].*commas, semicolons or tabs"):
        read(path, text_column="text")


def test_a_first_document_that_stands_for_the_header_is_told_in_short(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"1,{'One two three. ' * 99}\n2,Four. Five.\n")
    with pytest.raises(MissingColumnError, match=r"found \['1', 'One two .{50,60} \.\.\.'\]"):
        read(path)


def test_no_document_looks_for_its_own_text(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", [{"body": "A title", "content": "One. Two."}])
    with pytest.raises(UsageError, match="'body' is named as both, and would find itself"):
        read(source, text_column="body", counterpart_column="body")
    _, documents, _ = read(source, counterpart_column="body")
    assert documents[0].sentences == ["One.", "Two."], "the first usual name is taken already"


def test_no_body_is_meant_where_a_column_of_ids_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("ticket_id,body\n1,One.\n")
    nested = jsonl(tmp_path / "nested.jsonl", [{"meta": {"id": "a"}, "text": "One. Two."}])
    with pytest.raises(MissingColumnError, match=r"what lies inside 'meta' is not read"):
        read(nested, id_column="meta.id")
    with pytest.raises(MissingColumnError, match=r"'id': .* did you mean 'ticket_id'\?$"):
        read(path, id_column="id", text_column="body")
    with pytest.raises(MissingColumnError, match=r"'number': .*'body'\]\.$"):
        read(path, id_column="number", text_column="body")


def test_no_column_is_meant_that_is_named_already_or_that_nobody_mistyped(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", [{"ticket": "T1", "message": "One.", "subject": "Two"}])
    named = {"id_column": "ticket", "text_column": "message"}
    with pytest.raises(MissingColumnError, match=r"'titel': .*'subject'\]\.$"):
        read(source, counterpart_column="titel", text_column="message")
    with pytest.raises(MissingColumnError, match=r"'tickets': .*'subject'\]\.$"):
        read(source, counterpart_column="tickets", **named)
    with pytest.raises(MissingColumnError, match=r"'subjekt': .* did you mean 'subject'\?$"):
        read(source, counterpart_column="subjekt", **named)
    with pytest.raises(MissingColumnError, match=r"'subject'\]\. Name one by --text-column"):
        read(source)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
@pytest.mark.parametrize(("named", "found"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_column_may_be_named_in_other_code_points_than_the_file_has(
    tmp_path: Path, name: str, named: str, found: str
) -> None:
    asked, column = (unicodedata.normalize(form, "Überschrift") for form in (named, found))
    rows = [{"text": "Eins. Zwei.", column: "Titel"}]
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    elif name == "a.csv":
        (tmp_path / name).write_text(f"text,{column}\nEins. Zwei.,Titel\n", encoding="utf-8")
    else:
        jsonl(tmp_path / name, rows)
    assert read(tmp_path / name, counterpart_column=asked)[1][0].counterpart == "Titel"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_a_missing_column_names_those_found_and_the_closest(tmp_path: Path, name: str) -> None:
    rows = [{"ident": "1", "body": "One. Two."}]
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    elif name == "a.csv":
        (tmp_path / name).write_text("ident,body\n1,One. Two.\n")
    else:
        jsonl(tmp_path / name, rows)
    with pytest.raises(
        MissingColumnError, match=r"E104 .*\['ident', 'body'\], did you mean 'body'\?$"
    ):
        read(tmp_path / name, text_column="text")
    with pytest.raises(MissingColumnError, match="did you mean 'ident'"):
        read(tmp_path / name, id_column="id")
    assert read(tmp_path / name)[0].documents == 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_column_that_few_documents_have_may_come_late(tmp_path: Path, name: str) -> None:
    rows = [{"body": f"Document {number}. End."} for number in range(250)]
    rows[200]["title"] = "A title"
    source = jsonl(tmp_path / name, rows)
    if name == "a.json":
        source.write_text(json.dumps(rows))
    _, documents, _ = read(source, text_column="body", counterpart_column="title")
    assert len(documents) == 250
    assert {found.doc_id: found.counterpart for found in documents if found.counterpart} == {
        "row-200": "A title"
    }
    with pytest.raises(MissingColumnError, match=r"'titles': found \['body'\]"):
        read(source, text_column="body", counterpart_column="titles")


def test_a_guessed_column_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"key": "1", "title": "T", "body": "One. Two."}])
    with caplog.at_level("INFO", "sentemb_core.corpus.columns"):
        read(path, text_column="body")
        assert caplog.messages == []
        read(path)
    assert caplog.messages == [
        "text from column 'body' (guessed); ids: row numbers; counterpart: none; "
        "unused columns: key, title"
    ]


@pytest.mark.parametrize("column", ["id", "doc_id", "docid", "_id"])
def test_a_column_that_looks_like_ids_is_told_until_one_is_named(
    column: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{column: "1", "body": "One. Two."}])
    with caplog.at_level("INFO", "sentemb_core.corpus.columns"):
        read(path, text_column="body", id_column=column)
        assert caplog.messages == []
        read(path, text_column="body")
        read(path)
    hint = f"ids: row numbers (--id-column {column} takes column {column!r})"
    told, guessed = caplog.messages
    assert told == hint
    assert f"(guessed); {hint};" in guessed


def test_without_any_body_column_the_options_are_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"message": "One. Two."}])
    with pytest.raises(MissingColumnError, match=r"\['message'\].*--text-column"):
        read(path)


@pytest.mark.parametrize("column", ["id", "text", "sentences", "counterpart"])
def test_text_files_have_no_columns_to_name(tmp_path: Path, column: str) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("One. Two.")
    with pytest.raises(MissingColumnError, match="have no columns"):
        read(tmp_path / "texts", **{f"{column}_column": "title"})


def test_a_file_has_no_splits_to_name(tmp_path: Path) -> None:
    with pytest.raises(MissingColumnError, match=r"E104 Splits are of data sets.*'test' is asked"):
        read(jsonl(tmp_path / "a.jsonl", ROWS), split="test")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "No file or folder"),
        ("no such/place/at all", None, "No file or folder"),
        ("a.docx", b"PK", "ends in one of .jsonl"),
        ("a.parquet", b"PAR1 but not really", "cannot be read as parquet"),
        ("a.jsonl.gz", b"not zipped", "cannot be read as jsonl"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "One. Two."}\n' * 9_999)[:-20], "damaged"),
        ("a.json", b'[{"text": "One. Two."}, {"text": ', "array .* breaks: element 1"),
        ("a.json", b'[{"text": "One. Two."} {"text": 1}]', "expected ','"),
        ("a.json", b'[{"text": "One. Two."}]\n[{"text": "Three."}]', "more follows its end"),
        ("a.csv", b"id,text\r1,One. Two.\r", "Save it with one line end a row"),
        ("a.csv", b"te\xffxt\nOne. Two.\n", "header of a.csv .* byte 2"),
        ("a.csv", "text\r\nOne. Two.\r\n".encode("utf-16"), "mark of UTF-16"),
        ("a.jsonl", '{"text": "One. Two."}\n'.encode("utf-16"), "mark of UTF-16"),
    ],
)
def test_a_source_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableSourceError, match=message):
        list(readers.rows(CorpusConfig(source=str(tmp_path / name))))


def test_an_empty_file_is_an_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(EmptyCorpusError, match="0 bytes"):
        list(readers.rows(CorpusConfig(source=str(tmp_path / "a.jsonl"))))


def test_a_folder_without_texts_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(UnreadableSourceError, match=r"there are \.pdf"):
        list(readers.rows(CorpusConfig(source=str(tmp_path))))


def test_repeated_column_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,text\na,b\n")
    with pytest.raises(MissingColumnError, match="its own name"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "no-such-encoding"])
def test_an_encoding_without_line_ends_is_refused(tmp_path: Path, encoding: str) -> None:
    jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(UsageError, match="E001"):
        read(tmp_path / "a.jsonl", encoding=encoding)


def test_an_unknown_encoding_of_a_folder_of_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One. Two.")
    with pytest.raises(UsageError, match="E001 Unknown encoding 'no-such'"):
        read(tmp_path, encoding="no-such")


def test_the_encoding_that_spreadsheets_write_is_taken_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nÇa va. Déjà vu.\n", encoding="utf-8-sig")
    _, documents, _ = read(tmp_path / "a.csv", encoding="utf-8-sig")
    assert documents[0].sentences == ["Ça va.", "Déjà vu."]


@pytest.mark.parametrize(
    ("error", "way"),
    [
        (PermissionError(13, "Permission denied"), "Let this user read it"),
        (ConnectionError("Server Disconnected"), "The network broke off: run it again"),
        (EOFError("ended"), "damaged or incomplete: fetch it again"),
    ],
)
def test_what_a_source_that_cannot_be_read_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, way: str
) -> None:
    jsonl(tmp_path / "a.jsonl", ROWS)

    def broken(_: CorpusConfig) -> Iterator[Row]:
        raise error

    monkeypatch.setitem(readers.READERS, "jsonl", broken)
    with pytest.raises(UnreadableSourceError, match=f"E103 .*{way}"):
        read(tmp_path / "a.jsonl")


def test_another_encoding_is_taken_when_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\nDéjà vu. Ça va.\n".encode("latin-1"))
    _, documents, _ = read(path, encoding="latin-1")
    assert documents[0].sentences == ["Déjà vu.", "Ça va."]


@pytest.mark.parametrize("block", [1, 3, 7, 64, 4096])
def test_a_json_array_is_read_through_any_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(json_rows._Window, "BLOCK", block)
    rows = [*ROWS, {"id": "ü", "title": "😀", "text": "Grüße. Nein."}, 12, None]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1))
    report, documents, out = read(path, **COLUMNS)
    assert [document.doc_id for document in documents] == [*(r["id"] for r in ROWS), "ü"]
    assert report.quarantined == {"broken-row": 2}
    data = path.read_bytes()
    assert [row["where"] for row in quarantined(out)] == [
        f"a.json, element {len(rows) - 2}, byte {data.index(b'12,')}",
        f"a.json, element {len(rows) - 1}, byte {data.index(b'null')}",
    ]


@pytest.mark.parametrize("block", [5, 4096])
def test_an_element_is_told_by_its_first_byte_where_the_encoding_is_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(json_rows._Window, "BLOCK", block)
    path = tmp_path / "a.json"
    data = b'\xef\xbb\xbf [{"text": "Gr\xc3\xbc\xc3\x9fe. Ja."}, {"text": "\xff"} , 7]'
    path.write_bytes(data)
    places = {row["where"] for row in quarantined(read(path)[2])}
    starts = data.index(b'{"text": "\xff'), data.index(b"7]")
    assert places == {f"a.json, element {k}, byte {start}" for k, start in enumerate(starts, 1)}
    path.write_bytes(b'[{"text": "Gr\xfc\xdfe. Ja."}, 7]')
    [bad] = quarantined(read(path, encoding="latin-1")[2])
    assert bad["where"] == "a.json, element 1"


def test_a_line_too_long_to_parse_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROW_BYTES", 200)
    monkeypatch.setattr(json_rows, "ROW_BYTES", 200)
    rows = [ROWS[0], {"text": "long " * 500}, ROWS[1], b"broken"]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), **COLUMNS)
    assert [document.doc_id for document in documents] == ["d0", "d1"]
    assert report.quarantined == {"over-long": 1, "broken-row": 1}
    offset = (tmp_path / "a.jsonl").read_bytes().index(b"broken")
    assert [(row["row"], row["where"]) for row in quarantined(out)] == [
        (1, f"a.jsonl, line 2, byte {len(json.dumps(ROWS[0])) + 1}"),
        (3, f"a.jsonl, line 4, byte {offset}"),
    ]


def test_a_quote_left_open_is_given_up_and_reading_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [
        "text",
        "One. Two.",
        '"never closed',
        *["Some. Long lines." * 40] * 1_000,
        "Five. Six.",
    ]
    path.write_text("\n".join(lines) + "\n")
    report, documents, _ = read(path, max_characters=1_000)
    assert report.quarantined == {"over-long": 1}
    assert documents[-1].sentences == ["Five.", "Six."]


LONG = "".join(f"Step {k}, disk failed.\n" for k in range(8_000))
LONG_CELLS = {
    "lines like rows": LONG,
    "doubled quotes": LONG.replace("disk", '""disk""') + 'It said ""no"".',
    "one line": LONG.replace("\n", " "),
    "undecodable behind the limit": LONG + "\udcff",
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("kind", LONG_CELLS)
def test_a_quoted_cell_over_the_limit_costs_its_row_alone(
    tmp_path: Path, kind: str, end: str
) -> None:
    rows = ["title,text", 'A,"One.\nTwo."', f'B,"{LONG_CELLS[kind]}"', "C,Three. Four."]
    text = "".join(row.replace("\n", end) + end for row in rows)
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    report, documents, out = read(tmp_path / "a.csv", max_characters=1_000)
    assert report.quarantined == {"over-long": 1}
    assert [document.sentences for document in documents] == [["One.", "Two."], ["Three.", "Four."]]
    [bad] = quarantined(out)
    assert (bad["where"], bad["row"]) == ("a.csv, line 4", 1)
    assert bad["excerpt"].startswith('B,"Step 0, ')


def test_lines_behind_a_long_cell_keep_their_numbers_and_offsets(tmp_path: Path) -> None:
    data = f'title,text\nB,"{LONG}"\nlone\nC,\xff\n'.encode("latin-1")
    (tmp_path / "a.csv").write_bytes(data + b"D,Three. Four.\n")
    report, documents, out = read(tmp_path / "a.csv", max_characters=1_000)
    assert report.quarantined == {"over-long": 1, "broken-row": 1, "encoding": 1}
    assert len(documents) == 1
    assert [(row["where"], row["excerpt"].strip()) for row in quarantined(out)[1:]] == [
        ("a.csv, line 8003", "lone"),
        (f"a.csv, byte {len(data) - 2}", "C,\\xff"),
    ]


def test_an_open_quote_that_a_later_cell_seems_to_close_hides_nothing(tmp_path: Path) -> None:
    rows = ["title,text", 'A,"never closed', *["B,Long. Line."] * 20_000, 'C,"Five. Six."', ""]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    report, documents, _ = read(tmp_path / "a.csv", max_characters=1_000)
    assert report.quarantined == {"over-long": 1}
    assert documents[-1].sentences == ["Five.", "Six."]
    assert len(documents) > 5_000


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_stray_quote_that_a_later_one_seems_to_close_costs_its_row_alone(
    tmp_path: Path, name: str
) -> None:
    mark = "\t" if name == "a.tsv" else ","
    rows = [("id", "text"), ("1", "One. Two."), ("2", '"We won. It was late.'), ("3", "Three."),
            ("4", 'They call it "art" now.'), ("5", '"Five'), ("\xff", 'He said "hi". So.'),
            ("7", '"Seven, ""quoted"".\nIt goes on."')]  # fmt: skip
    (tmp_path / name).write_bytes("".join(f"{mark.join(row)}\n" for row in rows).encode("latin-1"))
    report, documents, out = read(tmp_path / name, id_column="id")
    assert report.quarantined == {"broken-row": 2, "encoding": 1}
    assert [found.doc_id for found in documents] == ["1", "3", "4", "7"]
    assert documents[-1].sentences == ['Seven, "quoted".', "It goes on."]
    assert [row["where"] for row in quarantined(out)][:2] == [f"{name}, line 3", f"{name}, line 6"]


def test_blank_lines_above_a_header_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n \nid,text\n1,One. Two.\n")
    _, documents, _ = read(tmp_path / "a.csv", id_column="id")
    assert [found.doc_id for found in documents] == ["1"]


def test_ids_are_not_taken_for_the_text(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", [{"document": "d1", "abstract": "One. Two."}])
    _, documents, _ = read(source, id_column="document")
    assert documents[0].sentences == ["One.", "Two."]


def test_a_folder_that_cannot_be_listed_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("One. Two.")
    listed = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(
        UnreadableSourceError, match=r"/b is not: Permission denied\. Let this user"
    ):
        list(readers.rows(CorpusConfig(source=str(tmp_path))))


def test_a_folder_of_links_says_that_they_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "a.txt").write_text("One. Two.")
    (tmp_path / "texts/a.txt").symlink_to(tmp_path / "a.txt")
    with pytest.raises(UnreadableSourceError, match=r"\.txt \(1 are links, which are not followed"):
        list(readers.rows(CorpusConfig(source=str(tmp_path / "texts"))))


def test_parquet_strings_that_are_no_text_cost_only_their_row(tmp_path: Path) -> None:
    texts = pa.array([b"One. Two.", b"bad \xff byte.", b"Three. Four."], pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 3, texts.buffers())})
    pq.write_table(table, tmp_path / "a.parquet")
    report, documents, out = read(tmp_path / "a.parquet")
    assert [document.doc_id for document in documents] == ["row-0", "row-2"]
    assert report.quarantined == {"encoding": 1}
    assert quarantined(out)[0]["row"] == 1
