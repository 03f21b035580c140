"""CSV as spreadsheets and databases write it; a broken row costs no other row."""

import csv
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus import csv_rows
from sentemb_core.corpus.checks import BadRow
from sentemb_core.errors import MissingColumnError
from tests.corpus.made import quarantined, read


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_cell_may_hold_a_json_list(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", 'titles\n"[""One"", ""Two""]"\nnot a list\n')
    report, documents, _ = read(source)
    assert documents[0].sentences == ["One", "Two"]
    assert report.quarantined == {"not-a-string": 1}


def test_quoted_cells_span_lines(tmp_path: Path) -> None:
    text = '\n \nid,text\n1,"One.\n\nTwo, ""quoted""."\n\n2,"Three. Four."\n'
    _, documents, _ = read(write(tmp_path / "a.csv", text), id_column="id")
    assert [document.sentences for document in documents] == [
        ["One.", 'Two, "quoted".'],
        ["Three.", "Four."],
    ]


@pytest.mark.parametrize(
    ("text", "id_column", "sentences"),
    [
        ('\ufeffid;title;text\n1;"A; b";"One, two. Three."\n', "id", ["One, two.", "Three."]),
        ("id\ttext\n1\tOne, two. Three; four.\n", "id", ["One, two.", "Three; four."]),
        ("id;old,text\n1,One. Two.\n", "id;old", ["One.", "Two."]),
        ('id;"name, first";text\n1;Ann;One. Two.\n', "id", ["One.", "Two."]),
        ("sep=;\nid;text\n1;One, two. Three.\n", "id", ["One, two.", "Three."]),
        ("\ufeffsep=|\r\n\r\nid|text\r\n1|One. Two.\r\n", "id", ["One.", "Two."]),
        ('"sep=,"\nid,text\n1,"One, two. Three."\n', "id", ["One, two.", "Three."]),
        ("sep=\t\nid,no\ttext\n1\tOne. Two.\n", "id,no", ["One.", "Two."]),
    ],
    ids=["semicolons", "tabs", "semicolon in a name", "comma in quotes", *["sep="] * 4],
)
def test_the_header_decides_the_separator(
    tmp_path: Path, text: str, id_column: str, sentences: list[str]
) -> None:
    _, documents, _ = read(write(tmp_path / "a.csv", text), id_column=id_column)
    assert documents[0].sentences == sentences


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("text,text\na,b\n", r"a\.csv .*\['text', 'text'\]"),
        ("id|body\n1|One. Two.\n", r"'body' \(--text-column\): .*\['id\|body'\].*a\.csv "),
        (f"1,{'One two three. ' * 99}\n2,Four. Five.\n", r"\['1', 'One two .{50,60} \.\.\.'\]"),
    ],
    ids=["repeated", "unseparated", "cells of the first document"],
)
def test_a_header_of_other_names_is_refused(tmp_path: Path, text: str, values: str) -> None:
    with pytest.raises(MissingColumnError, match=values):
        read(write(tmp_path / "a.csv", text), text_column="body")


@pytest.mark.parametrize(
    "text",
    ['id,"text\n1,One. Two.\n', 'id,"te"xt,"more\n', f'id,"text\n{"1,One. Two." * 20_000}\n'],
    ids=["never closed", "closed too early", "above the limit of a cell"],
)
def test_a_stray_quote_in_the_header_is_e104(tmp_path: Path, text: str) -> None:
    with pytest.raises(MissingColumnError, match=r"'id,\"te.* in line 1\. Close or remove"):
        read(write(tmp_path / "a.csv", text), text_column="text")


LONG = "".join(f"Step {k}, disk failed.\n" for k in range(8_000))
LONG_CELLS = {
    "lines like rows": LONG,
    "doubled quotes": LONG.replace("disk", '""disk""') + 'It said ""no"".',
    "one line": LONG.replace("\n", " "),
    "undecodable after the limit": LONG + "\udcff",
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("kind", LONG_CELLS)
def test_a_quoted_cell_over_the_limit_costs_only_its_row(
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


def test_lines_after_a_long_cell_keep_their_numbers_and_offsets(tmp_path: Path) -> None:
    data = f'title,text\nB,"{LONG}"\nlone\nC,\xff\n'.encode("latin-1")
    (tmp_path / "a.csv").write_bytes(data + b"D,Three. Four.\n")
    report, documents, out = read(tmp_path / "a.csv", max_characters=1_000)
    assert report.quarantined == {"over-long": 1, "broken-row": 1, "encoding": 1}
    assert len(documents) == 1
    assert [(row["where"], row["excerpt"].strip()) for row in quarantined(out)[1:]] == [
        ("a.csv, line 8003", "lone"),
        (f"a.csv, byte {len(data) - 2}", "C,\\xff"),
    ]


@pytest.mark.parametrize("closed", [False, True])
def test_an_unclosed_quote_hides_no_later_row(tmp_path: Path, closed: bool) -> None:
    """Also where a quote in a much later row seems to close it."""
    last = 'C,"Five. Six."' if closed else "C,Five. Six."
    lines = ["B,A line. All of them are longer than a field may be."] * 3_000
    rows = ["title,text", 'A,"never closed', *lines, last, ""]
    report, documents, _ = read(write(tmp_path / "a.csv", "\n".join(rows)), max_characters=1_000)
    assert report.quarantined == {"broken-row": 1}
    assert documents[-1].sentences == ["Five.", "Six."]
    assert len(documents) == 3_001


def test_rows_in_a_quoted_cell_are_reported(tmp_path: Path, caplog) -> None:
    """The last of them ends in an inch mark, which closes the quote that the first left open."""
    inner = "".join(f"{k},Long. Line.\n" for k in range(1, 50))
    swallowed = f'id,text\n0,"Never closed\n{inner}50,A screen of 5"\n51,One. Two.\n'
    report, documents, _ = read(write(tmp_path / "a.csv", swallowed))
    assert (report.rows_read, len(documents)) == (2, 2)
    assert "line 2 (51 lines)" in caplog.text
    caplog.clear()
    read(write(tmp_path / "b.csv", 'id,text\n0,"One,\ntwo\nthree, four."\n1,Five. Six.\n'))
    assert "line 2" not in caplog.text


@pytest.mark.parametrize("line", ['1,"open', '",z","'], ids=["open", "closed and opened"])
def test_many_stray_quotes_are_read_in_linear_time(tmp_path: Path, line: str) -> None:
    source = write(tmp_path / "a.csv", "id,text\n" + f"{line}\n" * 5_000 + "x,One. Two.\n")
    report, documents, _ = read(source)
    assert report.quarantined == {"broken-row": 5_000}
    assert [document.sentences for document in documents] == [["One.", "Two."]]


@pytest.mark.parametrize("end", ["\n", ""], ids=["a row follows", "the file ends"])
@pytest.mark.parametrize("quote", ["", '"'], ids=["plain", "quoted"])
def test_a_line_above_row_bytes_is_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quote: str, end: str
) -> None:
    monkeypatch.setattr(csv_rows, "ROW_BYTES", 100)
    line = f"B,{quote}{'a,b. ' * 99}{quote}{end}"
    text = f"title,text\nA,One. Two.\n{line}{f'C,Three. Four.{end}lone{end}' if end else ''}"
    report, documents, out = read(write(tmp_path / "a.csv", text))
    assert report.quarantined == {"over-long": 1} | ({"broken-row": 1} if end else {})
    assert len(documents) == (2 if end else 1)
    places = [(bad["where"], bad["excerpt"][:4]) for bad in quarantined(out)]
    assert places == [("a.csv, line 3", line[:4]), ("a.csv, line 5", "lone")][: 2 if end else 1]


def test_rows_after_a_quote_open_over_row_bytes_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the line in which the look-ahead ends."""
    rows = "".join(f"{k},One of {k}. Two.\n" for k in range(30))
    for size in range(100, 130):
        monkeypatch.setattr(csv_rows, "ROW_BYTES", size)
        source = write(tmp_path / "a.csv", f'id,text\nx,"open\n{rows}')
        report, documents, out = read(source, id_column="id")
        assert report.quarantined == {"broken-row": 1}
        assert [document.doc_id for document in documents] == list(map(str, range(30)))
        assert quarantined(out)[0]["where"] == "a.csv, line 2"


def test_lines_after_an_open_quote_are_kept_as_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1 << 16
    monkeypatch.setattr(csv_rows, "ROW_BYTES", size)
    source = write(tmp_path / "a.csv", 'id,text\nx,"open\n' + "1,a\n" * size)
    rows = csv_rows.csv_rows(CorpusConfig(source=str(source), max_characters=1))
    tracemalloc.start()
    try:
        assert isinstance(next(rows), BadRow)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size + (1 << 20)  # with the buffer of the csv module; strings need 3 MB
    assert next(rows).where == "a.csv, line 3"


def reference(lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the number of the first line and the cells of each row; no cells if it is broken.

    A row is the fewest lines in which every quote is closed, else one broken line.
    """
    rows: list[tuple[int, list[str]]] = []
    at = 0
    while at < len(lines):
        cells, size = list[str](), 1
        for end in range(at + 1, len(lines) + 1):
            try:
                [cells] = csv.reader(lines[at:end], strict=True)
                size = end - at
            except csv.Error as error:
                if "unexpected end" in str(error):
                    continue
            break
        if cells or lines[at].strip("\r\n"):
            rows.append((at + 1, cells))
        at += size
    return rows


@given(
    pieces=st.lists(
        st.sampled_from(['"', ",", "\n", "a", "\r\n", '""', ',"', '",', '"\n', '\n",a","\n']),
        max_size=40,
    )
)
def test_a_row_is_the_fewest_lines_that_close_every_quote(pieces: list[str]) -> None:
    lines = ["id,text\n", *"".join(pieces).splitlines(keepends=True)]
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_bytes("".join(lines).encode())
        found = list(csv_rows.csv_rows(CorpusConfig(source=str(path), id_column="id")))
    wanted = reference(lines)[1:]
    assert [row.where for row in found] == [f"a.csv, line {number}" for number, _ in wanted]
    for row, (_, cells) in zip(found, wanted, strict=True):
        if len(cells) == 2:
            assert not isinstance(row, BadRow)
            assert [row.doc_id, row.text] == cells
        else:  # spreadsheets write no text after a quote that closes a cell; it may be a row
            assert isinstance(row, BadRow) or '"' in lines[int(row.where.split()[-1]) - 1]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_stray_quote_costs_only_its_row(tmp_path: Path, name: str) -> None:
    mark = "\t" if name == "a.tsv" else ","
    rows = [("id", "text"), ("1", "One. Two."), ("2", '"We won. It was late.'), ("3", "Three."),
            ("4", 'They call it "art" now.'), ("5", '"Five'), ("\xff", 'He said "hi". So.'),
            ("7", '"Seven, ""quoted"".\nIt goes on."')]  # fmt: skip
    (tmp_path / name).write_bytes("".join(f"{mark.join(row)}\n" for row in rows).encode("latin-1"))
    report, documents, out = read(tmp_path / name, id_column="id")
    assert report.quarantined == {"broken-row": 2, "encoding": 1}
    assert [document.doc_id for document in documents] == ["1", "3", "4", "7"]
    assert documents[-1].sentences == ['Seven, "quoted".', "It goes on."]
    assert [row["where"] for row in quarantined(out)][:2] == [f"{name}, line 3", f"{name}, line 6"]
