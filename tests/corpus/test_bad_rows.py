"""Every kind of bad row is quarantined with its reason and costs no other row."""

import json
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.corpus import checks
from sentemb_core.corpus.checks import EXCERPT, REASONS
from sentemb_core.corpus.columns import SENTENCE_COLUMNS, TEXT_COLUMNS
from sentemb_core.errors import BadDataError
from tests.corpus.made import jsonl, quarantined, read, texts
from tests.repository import ROOT

COLUMNS = {"id_column": "id", "counterpart_column": "title", "max_characters": 2_000}


def line(row: dict, **changes: object) -> bytes:
    return json.dumps({**row, **changes}).encode()


DEFECTS = {
    "bad bytes": ("encoding", lambda row: line(row).replace(b"Sentence 1", b"Sent\xff\xfe 1")),
    "lone surrogate": ("encoding", lambda row: line(row, text="A. \ud800 B.")),
    "escaped NUL": ("nul", lambda row: line(row, text="A. \0 B.")),
    "raw NUL": ("nul", lambda row: line(row).replace(b"Sentence 1", b"Sent\0 1")),
    "cut line": ("broken-row", lambda row: line(row)[:-9]),
    "no object": ("broken-row", lambda row: b'["a", "b"]'),
    "number": ("not-a-string", lambda row: line(row, text=12)),
    "list as text": ("not-a-string", lambda row: line(row, text=["One.", "Two."])),
    "title of numbers": ("not-a-string", lambda row: line(row, title=[1])),
    "null": ("empty", lambda row: line(row, text=None)),
    "blank": ("empty", lambda row: line(row, text=" \n\t ")),
    "title alone": ("only-counterpart", lambda row: line(row, text=row["title"])),
    "long": ("over-long", lambda row: line(row, text="Long. " * 2_000)),
    "list as id": ("bad-id", lambda row: line(row, id=["d"])),
    "no id": ("bad-id", lambda row: line({"text": row["text"]})),
    "true as id": ("bad-id", lambda row: line(row, id=True)),
    "empty id": ("bad-id", lambda row: line(row, id="")),
    "repeated id": ("duplicate-id", lambda row: line(row, id="d0")),
}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5])
def test_the_quarantine_counts_the_injected_defects(tmp_path: Path, share: float) -> None:
    rows = texts(600)
    kinds = list(DEFECTS)
    spoilt = {1 + round(k / share): kinds[k % len(kinds)] for k in range(int(share * 599))}
    lines = [DEFECTS[spoilt[k]][1](row) if k in spoilt else line(row) for k, row in enumerate(rows)]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", lines), **COLUMNS)
    wanted = Counter(DEFECTS[kind][0] for kind in spoilt.values())
    assert report.quarantined == dict(wanted)
    assert {row["row"]: row["reason"] for row in quarantined(out)} == {
        k: DEFECTS[kind][0] for k, kind in spoilt.items()
    }
    assert [document.source_row for document in documents] == [
        k for k in range(len(rows)) if k not in spoilt
    ]


def test_a_bad_row_is_kept_once_over_several_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "FLUSH", 3)
    _, _, out = read(jsonl(tmp_path / "a.jsonl", [*texts(2), *[b"broken"] * 7]))
    assert [bad["row"] for bad in quarantined(out)] == [*range(2, 9)]


@pytest.mark.parametrize("kind", DEFECTS)
def test_one_bad_row_has_its_reason_place_and_excerpt(tmp_path: Path, kind: str) -> None:
    reason, spoil = DEFECTS[kind]
    good = texts(3)
    lines = [line(good[0]), b"", spoil(good[1]), line(good[2])]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", lines), **COLUMNS)
    [bad] = quarantined(out)
    assert (bad["row"], bad["reason"]) == (2, reason)
    assert bad["where"].startswith("a.jsonl, line 3, byte ")
    assert len(bad["excerpt"]) <= 10 * EXCERPT
    assert "\0" not in bad["excerpt"]
    assert (report.rows_read, [document.doc_id for document in documents]) == (3, ["d0", "d2"])


@pytest.mark.parametrize(
    ("reason", "sentences"),
    [
        ("encoding", ["One.", "Two \ud800."]),
        ("nul", ["One.", "Two \0."]),
        ("over-long", ["Long. " * 200] * 2),
        ("not-a-string", ["One.", 2]),
        ("not-a-string", ["One.", ["x"]]),
        ("not-a-string", ["One.", {"a": 1}]),
        ("not-a-string", ["One.", True]),
        ("not-a-string", "One."),
    ],
)
def test_a_list_of_sentences_is_checked_like_text(
    tmp_path: Path, reason: str, sentences: list[object]
) -> None:
    rows = [{"sentences": ["One.", None, "Two."]}, {"sentences": sentences}]
    _, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), max_characters=2_000)
    assert [document.sentences for document in documents] == [["One.", "Two."]]
    assert [(bad["row"], bad["reason"]) for bad in quarantined(out)] == [(1, reason)]


def test_the_offset_of_a_bad_byte_is_that_of_the_file(tmp_path: Path) -> None:
    data = b'{"text": "One. Two."}\n{"text": "Th\xffree. Four."}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "a.csv").write_bytes(b'text\nOne. Two.\n"Three.\nFo\xffur."\nFive. Six.\n')
    for name in ("a.jsonl, line 2", "a.csv"):
        where, name = name, name.partition(",")[0]
        _, _, out = read(tmp_path / name)
        [bad] = quarantined(out)
        offset = (tmp_path / name).read_bytes().index(b"\xff")
        assert (bad["where"], bad["reason"]) == (f"{where}, byte {offset}", "encoding")


CSV_DEFECTS = {
    "bad bytes": ("encoding", b"x,Title,A b\xff. C.\n"),
    "NUL": ("nul", b"x,Title,A \0 b. C.\n"),
    "too few cells": ("broken-row", b"x,Title\n"),
    "too many cells": ("broken-row", b"x,Title,A. B.,more\n"),
    "carriage return": ("broken-row", b"x,Title,A.\rB.\n"),
    "no text": ("empty", b"x,Title,\n"),
    "long": ("over-long", b"x,Title," + b"Long. " * 900 + b"\n"),
    "no id": ("bad-id", b",Title,A. B.\n"),
    "repeated id": ("duplicate-id", b"d0,Title,A. B.\n"),
}


@pytest.mark.parametrize("kind", CSV_DEFECTS)
def test_a_bad_csv_row_costs_no_other_row(tmp_path: Path, kind: str) -> None:
    reason, bad_line = CSV_DEFECTS[kind]
    good = [f"d{k},Title {k},One of {k}. Two of {k}.\n".encode() for k in range(2)]
    (tmp_path / "a.csv").write_bytes(b"id,title,text\n" + good[0] + bad_line + good[1])
    report, documents, out = read(tmp_path / "a.csv", **COLUMNS)
    assert report.quarantined == {reason: 1}
    assert [document.doc_id for document in documents] == ["d0", "d1"]
    assert quarantined(out)[0]["row"] == 1


HOSTILE = ["../x", "/etc/passwd", "a\nb", "%2e%2e%2f", "CON", "n" * 300, "\u202eabc", "-rf",
           "' OR 1", "<script>alert(1)</script>", "${HOME}", "a/b\\c", " ", "row-0"]  # fmt: skip


def test_hostile_ids_name_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "inside"
    folder.mkdir(parents=True)
    rows = [{"id": name, "text": f"One of {k}. Two."} for k, name in enumerate(HOSTILE)]
    refused = [{"id": "a\0b", "text": "A. B."}, {"id": "\ud800", "text": "A. B."},
               {"id": "n" * 1_001, "text": "A. B."}]  # fmt: skip
    report, documents, out = read(jsonl(folder / "a.jsonl", rows + refused), id_column="id")
    assert [document.doc_id for document in documents] == HOSTILE
    assert report.quarantined == {"bad-id": 3}
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    written = {out / name for name in ("documents.parquet", "quarantine.parquet", "report.json")}
    assert files == {path.relative_to(tmp_path) for path in [*written, folder / "a.jsonl"]}


def test_every_reason_has_a_bad_row() -> None:
    of_labels = {"unknown-id", "left-out", "duplicate-label"}  # in test_label_files.py
    assert {reason for reason, _ in (DEFECTS | CSV_DEFECTS).values()} == set(REASONS) - of_labels


def test_the_docs_list_every_reason_and_guessed_column() -> None:
    page = (ROOT / "docs" / "data.md").read_text("utf-8")
    _, table = page.split("| reason | the row | way out |\n")
    reasons = re.findall(r"^\| `([a-z-]+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert reasons == list(REASONS)
    (columns,) = [line for line in page.splitlines() if line.startswith("- **Columns.**")]
    tried = re.findall(r"`(\w+)`", columns)
    assert tried == [*SENTENCE_COLUMNS, *TEXT_COLUMNS]


PIECES = st.sampled_from(
    [b'{"text": "One. Two."}\n', b'{"text":', b'"', b"\n", b"\r\n", b"\xef\xbb\xbf", b"\0", b"\xff",
     b"[" * 2_000, b"{}", b"text", b",", b"text,id\n", b"a. B c.,1\n", b"\\ud800", b"NaN", b"1e999",
     b'{"text": null}\n', b'{"text": ["A"]}\n', b"\x1a", b"\xe2\x80\xa8"]
)  # fmt: skip
FILES = st.lists(PIECES | st.binary(max_size=12), max_size=25).map(b"".join)


def reads_or_refuses(name: str, data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        try:
            report, documents, out = read(path, max_characters=200)
        except BadDataError:
            return
        assert report.rows_read == len(documents) + len(quarantined(out))
        assert all("\0" not in sentence for found in documents for sentence in found.sentences)


@given(data=FILES, name=st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv"]))
def test_no_bytes_make_the_reader_crash(data: bytes, name: str) -> None:
    reads_or_refuses(name, data)


@given(
    places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8),
    name=st.sampled_from(["a.jsonl", "a.csv"]),
)
def test_no_flipped_byte_makes_the_reader_crash(places: list[tuple[int, int]], name: str) -> None:
    rows = texts(6)
    if name == "a.csv":
        data = "id,title,text\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    else:
        data = "".join(json.dumps(row) + "\n" for row in rows)
    spoilt = bytearray(data.encode())
    for place, byte in places:
        spoilt[place % len(spoilt)] = byte
    reads_or_refuses(name, bytes(spoilt))
