"""CSV as spreadsheets and databases write it; a broken row costs no other row."""

from pathlib import Path

import pytest

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
    ],
    ids=["semicolons", "tabs", "semicolon in a name", "comma in quotes"],
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
    rows = ["title,text", 'A,"never closed', *["B,Long. Line."] * 20_000, last, ""]
    report, documents, _ = read(write(tmp_path / "a.csv", "\n".join(rows)), max_characters=1_000)
    assert report.quarantined == {"broken-row": 1}
    assert documents[-1].sentences == ["Five.", "Six."]
    assert len(documents) == 20_001


def test_many_stray_quotes_are_read_in_linear_time(tmp_path: Path) -> None:
    rows = "".join(f'{k},"open {k}\n' for k in range(20_000))
    source = write(tmp_path / "a.csv", f"id,text\n{rows}x,One. Two.\n")
    report, documents, _ = read(source)
    assert report.quarantined == {"broken-row": 20_000}
    assert [document.sentences for document in documents] == [["One.", "Two."]]


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
