"""Every format gives the same documents; unreadable sources are refused with a code."""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus import json_rows, markup, readers, source
from sentemb_core.corpus.columns import Row
from sentemb_core.corpus.markup import heading, plain_text
from sentemb_core.corpus.parquet_rows import _or_zero
from sentemb_core.errors import (
    DuplicateIdError,
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


LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def delimited(dialect: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["id", "title", "text"], dialect=dialect)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode("utf-8-sig")


FILES = {
    "rows.jsonl": LINES,
    "bom.ndjson": b"\xef\xbb\xbf" + LINES,
    "rows.jsonl.gz": gzip.compress(LINES),
    "array.json": ("\ufeff" + json.dumps(ROWS, indent=2)).encode(),
    "lines.json": LINES,
    "rows.csv": delimited("excel"),
    "rows.tsv": delimited("excel-tab"),
    "rows.csv.gz": gzip.compress(delimited("excel")),
}


def assert_wanted(source: Path) -> None:
    report, documents, _ = read(source, **COLUMNS)
    assert [tuple(document) for document in documents] == WANTED
    assert (report.rows_read, report.quarantined) == (5, {})


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert_wanted(tmp_path / name)


def test_arrow_tables_give_the_same_documents(tmp_path: Path, monkeypatch) -> None:
    from datasets import Dataset, DatasetDict

    monkeypatch.setattr(readers, "READ_ROWS", 2)
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(1, "title", table["title"].dictionary_encode())
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=2)
    Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    DatasetDict({"train": Dataset.from_list(ROWS)}).save_to_disk(tmp_path / "splits")
    for name in ("rows.parquet", "saved", "splits"):
        assert_wanted(tmp_path / name)


def test_a_data_set_of_the_hub_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = {}

    def load(name: str, *, streaming: bool):
        asked.update(name=name, streaming=streaming)
        return {"train": ROWS}

    monkeypatch.setattr(datasets, "load_dataset", load)
    rows = list(readers.rows(CorpusConfig(source="some/name", **COLUMNS)))
    assert [row.doc_id for row in rows] == [row["id"] for row in ROWS]
    assert asked == {"name": "some/name", "streaming": True}


def test_a_record_of_the_hub_may_lack_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    first = {name: value for name, value in ROWS[0].items() if name != "title"}
    for records in ([first, *ROWS[1:]], []):
        monkeypatch.setattr(datasets, "load_dataset", lambda *_, found=records, **__: {"x": found})
        rows = list(readers.rows(CorpusConfig(source="some/name", **COLUMNS)))
        wanted = [record.get("title") for record in records]
        assert [row.counterpart for row in rows] == wanted


def test_one_of_several_splits_must_be_named(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    splits = {"train": Dataset.from_list(ROWS[:2]), "test": Dataset.from_list(ROWS[2:])}
    DatasetDict(splits).save_to_disk(tmp_path / "saved")
    for split, values in ((None, ""), ("dev", ".*'dev'")):
        with pytest.raises(UnreadableSourceError, match=rf"\['train', 'test'\]{values}.*--split"):
            read(tmp_path / "saved", split=split, **COLUMNS)
    assert read(tmp_path / "saved", split="test", **COLUMNS)[0].documents == 3
    with pytest.raises(MissingColumnError, match=r"E104 .*a\.jsonl .*--split 'test'"):
        read(jsonl(tmp_path / "a.jsonl", ROWS), split="test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    return tmp_path / "texts"


def test_a_folder_of_texts_uses_paths_as_ids(folder: Path) -> None:
    (folder / "deep").mkdir()
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
    for column in ("id", "text", "sentences", "counterpart"):
        with pytest.raises(MissingColumnError, match=rf"E104 .*{folder}.*--id-column"):
            read(folder, **{f"{column}_column": "title"})


def test_links_in_a_folder_are_not_followed(tmp_path: Path, folder: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("A secret. A key.")
    (folder / "link.txt").symlink_to(secret / "key.txt")
    (folder / "linked").symlink_to(secret)
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnreadableSourceError, match=rf"{folder}: .*\.txt \(1 are links"):
        read(folder)
    (folder / "own.txt").write_text("An own text. Of two sentences.")
    assert [document.doc_id for document in read(folder)[1]] == ["own.txt"]


def test_bad_file_names_and_nul_in_markdown_are_quarantined(folder: Path) -> None:
    (folder / "good.txt").write_text("A text. Of two.")
    (folder / "nul.md").write_text("A text.\0 Of two more.")
    Path(str(folder) + "/bad\udcff.txt").write_text("A text. Of two more.")
    report, _, out = read(folder)
    assert report.quarantined == {"bad-id": 1, "nul": 1}
    assert "bad\\xff.txt" in [row["where"] for row in quarantined(out)]


def test_an_unreadable_folder_is_not_left_out(tmp_path: Path, monkeypatch) -> None:
    for name in ("a.txt", "b/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("One. Two.")
    listed = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UnreadableSourceError, match=r"/b .*Permission denied"):
        list(readers.rows(CorpusConfig(source=str(tmp_path))))


def test_markdown_loses_its_marks_and_keeps_its_words() -> None:
    text = (
        "---\ntitle: x\n---\n## A head ##\nWords **bold**, `code`.\n* item one\n* item two\n"
        "![picture](p.png)\n```python\nprint()\n```\n> A quote.\n<!-- gone -->\n"
    )
    lines = [line for line in plain_text(text).splitlines() if line.strip()]
    assert lines == ["A head", "Words bold, code.", "item one", "item two", "A quote."]
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
    assert plain_text("foo<br>bar<BR />baz").split() == ["foo", "bar", "baz"]
    assert plain_text("---\n\nThe first.\n\n---\n\nThe second.\n") == "The first.\n\nThe second."
    assert plain_text("---\n# A slide\n---\nIts text.\n") == "A slide\n\nIts text."


@pytest.mark.parametrize("mark", ["<!-- ", "![", "[a](", "**a ", "> ", "a <!-- b\n"])
def test_unclosed_markdown_marks_are_read_in_linear_time(mark: str) -> None:
    assert plain_text(f"{mark * 50_000}\n\nThe end.").endswith("The end.") is (mark != "<!-- ")


def test_a_list_of_sentences_takes_precedence_over_text(tmp_path: Path) -> None:
    row = {"sentences": ["  One. Still one. ", "", "two", None], "text": "Not used. At all."}
    _, documents, _ = read(jsonl(tmp_path / "a.jsonl", [row]))
    assert documents[0].sentences == ["One. Still one.", "two"]
    assert documents[0].doc_id == "row-0"


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("none.jsonl", None, r"at .*/none\.jsonl\."),
        ("no such/place/at all", None, "at .*/no such/place/at all"),
        (
            "nobody/has-this-data-set",
            None,
            "'nobody/has-this-data-set' .*HF_HUB_OFFLINE is 1.*HF_HUB_OFFLINE=0",
        ),
        ("a.docx", b"PK", r"\.jsonl.*'a\.docx'"),
        ("a.parquet", b"PAR1 but not really", r"a\.parquet .* parquet: "),
        ("a.jsonl.gz", b"not zipped", r"a\.jsonl\.gz .* jsonl: "),
        (
            "a.jsonl.gz",
            gzip.compress(b'{"text": "One. Two."}\n' * 9_999)[:-20],
            r"a\.jsonl\.gz .* jsonl: .*end-of-stream",
        ),
        ("a.json", b'[{"text": "One. Two."}, {"text": ', r"a\.json .*element 1.*'\{\"text"),
        ("a.json", b'[{"text": "One. Two."} {"text": 1}]', r"a\.json .*','.*'\{\"text"),
        ("a.json", b'[{"text": "One. Two."}]\n[{"text": "Three."}]', r"a\.json .*'\[\{\"text"),
        ("a.csv", b"id,text\r1,One. Two.\r", r"a\.csv .* csv: .*\\n or \\r\\n"),
        ("a.csv", b"te\xffxt\nOne. Two.\n", r"a\.csv .*utf-8 .*byte 2: .*--encoding"),
        ("a.csv", "text\r\nOne. Two.\r\n".encode("utf-16"), r"a\.csv .*UTF-16"),
        ("a.jsonl", '{"text": "One. Two."}\n'.encode("utf-16"), r"a\.jsonl .*UTF-16"),
        ("folder/a.pdf", b"x", r"/folder: \.pdf\."),
    ],
)
def test_an_unreadable_source_is_e103(
    tmp_path: Path, name: str, content: bytes | None, values: str
) -> None:
    path = name if name.startswith("nobody") else str(tmp_path / name)
    if content is not None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    path = str(tmp_path / "folder") if name.startswith("folder") else path
    with pytest.raises(UnreadableSourceError, match=f"E103 .*{values}"):
        list(readers.rows(CorpusConfig(source=path)))


FAILURES = [
    PermissionError(13, "Permission denied"),
    ConnectionError("x"),
    csv.Error("cr"),
    EOFError("ended"),
]


@pytest.mark.parametrize("error", [*FAILURES, TimeoutError("late")])
def test_an_error_during_the_read_is_e103(tmp_path: Path, monkeypatch, error: Exception) -> None:
    def broken(_: CorpusConfig) -> Iterator[Row]:
        raise error

    monkeypatch.setitem(readers.READERS, "jsonl", broken)
    values = rf"E103 .*a\.jsonl .* jsonl: {re.escape(str(error))}"
    with pytest.raises(UnreadableSourceError, match=values) as caught:
        read(jsonl(tmp_path / "a.jsonl", ROWS))
    assert str(caught.value).endswith(readers._advice(error))
    assert len({*map(readers._advice, FAILURES)}) == 4


def test_an_empty_file_is_an_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(EmptyCorpusError, match=r"a\.jsonl has 0 bytes"):
        list(readers.rows(CorpusConfig(source=str(tmp_path / "a.jsonl"))))


def test_encodings_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for encoding in ("latin-1", "utf-8-sig"):
        path.write_text("text\nDéjà vu. Ça va.\n", encoding=encoding)
        assert read(path, encoding=encoding)[1][0].sentences == ["Déjà vu.", "Ça va."]
    for encoding in ("utf-16", "no-such-encoding"):
        with pytest.raises(UsageError, match=f"E001 .*'{encoding}'"):
            read(path, encoding=encoding)
    (tmp_path / "a.txt").write_text("One. Two.")
    with pytest.raises(UsageError, match=r"E001 .*'no-such'"):
        read(tmp_path, encoding="no-such")


@pytest.mark.parametrize("block", [1, 3, 7, 64, 4096])
def test_a_json_array_is_read_in_blocks_of_any_size(tmp_path: Path, monkeypatch, block) -> None:
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
def test_a_bad_element_is_named_by_its_first_byte_in_utf_8(
    tmp_path: Path, monkeypatch, block: int
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


def test_an_over_long_line_costs_only_its_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(source, "ROW_BYTES", 200)
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


def test_an_undecodable_parquet_string_costs_only_its_row(tmp_path: Path) -> None:
    strings = pa.array([b"One. Two.", b"bad \xff byte.", b"Three. Four."], pa.binary())
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), 3, strings.buffers())})
    pq.write_table(table, tmp_path / "a.parquet")
    report, documents, out = read(tmp_path / "a.parquet")
    assert [document.doc_id for document in documents] == ["row-0", "row-2"]
    assert report.quarantined == {"encoding": 1}
    assert quarantined(out)[0]["row"] == 1


def test_markdown_has_columns_and_other_files_are_reported(tmp_path: Path, caplog) -> None:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    matter = '---\ntitle: "On storms: one"\nid: s-1\ntags:\n  - a\n---\n'
    (folder / "a.md").write_text(f"{matter}# Storms\n\nOn storms: one. A b. C d.\n")
    (folder / "b.md").write_text("Intro. Two.\n\n## The heading\n\nE f. G h.\n")
    (folder / "c.txt").write_text("title: no. I j.\n")
    for name in ("d.docx", "deep/e.docx", "deep/f.pdf", ".hidden"):
        (folder / name).write_bytes(b"x")
    _, documents, _ = read(folder, id_column="id", counterpart_column="title")
    assert [document.doc_id for document in documents] == ["s-1", "b.md", "c.txt"]
    assert [document.counterpart for document in documents] == ["On storms: one", None, None]
    assert documents[0].sentences == ["Storms", "A b.", "C d."]
    assert "3 files" in caplog.text
    assert "2 .docx, 1 .pdf" in caplog.text
    _, documents, _ = read(folder, counterpart_column="heading")
    assert [document.counterpart for document in documents] == ["Storms", "The heading", None]
    assert "The heading" not in documents[1].sentences
    (folder / "z.md").write_text(f"{matter}Another. One.\n")
    with pytest.raises(DuplicateIdError, match=r"'s-1' in a\.md and in z\.md"):
        read(folder, id_column="id", on_duplicate="error")
    with pytest.raises(MissingColumnError, match=r"'title'.*not 'tag'"):
        read(folder, counterpart_column="tag")


def test_markdown_that_is_mostly_marks_is_not_parsed(monkeypatch) -> None:
    monkeypatch.setattr(markup, "_parser", lambda: 1 / 0)
    for unit in ("![", "[a](", "*a _", "- a\n", "|a|b\n", "# a\n"):
        text = unit * 1_000
        assert plain_text(f"---\ntitle: A\n---\n{text}") == text
        assert heading(text) is None


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint16()], ids=str)
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(9, 20), slice(0), slice(1, 2)])
def test_null_counts_as_0(kind: pa.DataType, part: slice) -> None:
    numbers = pa.array([1, None, 3] * 9 + [None], kind)[part]
    assert _or_zero(numbers).tolist() == [number or 0 for number in numbers.to_pylist()]
    assert _or_zero(numbers).dtype == np.int64


def test_parquet_is_opened_without_pandas(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([*ROWS, {"id": None, "title": None, "text": None}]), path)
    script = f"""
import sys
from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.readers import check_source
check_source(CorpusConfig(source={str(path)!r}, **{COLUMNS!r}))
print("pandas" in sys.modules)"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False"]
