"""Documents: what is kept, dropped, sampled and refused, with equal bytes for equal input."""

import hashlib
import json
import random
import re
import time
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core import schemas
from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus import documents as documents_module
from sentemb_core.corpus.documents import CorpusReport, sentences_of
from sentemb_core.corpus.markup import without_html
from sentemb_core.errors import BadDataError, DuplicateIdError, EmptyCorpusError, EmptyPairsError
from tests.corpus.made import jsonl, quarantined, read, texts


def rows_add_up(report: CorpusReport) -> bool:
    refused = sum(report.quarantined.values())
    return report.rows_read == report.documents + refused + report.left_out + report.not_drawn


@pytest.mark.parametrize(
    ("row", "sentences", "dropped"),
    [
        (
            {"sentences": ["One.", "the title", "Two.", "One.", " THE TITLE ", "One"]},
            ["One.", "Two.", "One"],
            (1, 2),
        ),
        ({"text": "THE TITLE\n\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": " the  title!\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": " the  title.\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "The title is long\nOne. Two."}, ["The title is long One.", "Two."], (0, 0)),
        ({"text": "The title\nOne.", "sentences": ["One.", "Two."]}, ["One.", "Two."], (0, 0)),
        ({"title": "Two?", "text": "Two\nOne. Two. Three."}, ["One.", "Three."], (0, 2)),
        ({"text": "The title. One. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "The title: one. Two."}, ["one.", "Two."], (0, 1)),
        ({"text": "# The title\n\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "The title\n=========\n\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "**The title**\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "Subject: Re: the title\n\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "2.1 The title\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "One. “The title!” Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "<h1>The title</h1>\nOne. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "The ti\xadtle\u200b. One. Two."}, ["One.", "Two."], (0, 1)),
        (
            {"title": "Caf\xe9 &amp; bar", "text": "Cafe\u0301 & bar. One. Two."},
            ["One.", "Two."],
            (0, 1),
        ),
        ({"title": "標題在此", "text": "標題\uff1a標題在此。One. Two."}, ["One.", "Two."], (0, 1)),
        ({"text": "The title is one. Two."}, ["The title is one.", "Two."], (0, 0)),
        ({"text": "Not the title. Two."}, ["Not the title.", "Two."], (0, 0)),
        ({"title": "One", "text": "One: two. Three."}, ["One: two.", "Three."], (0, 0)),
        ({"title": "?!", "text": "?! One. Two."}, ["One.", "Two."], (0, 1)),
    ],
)
def test_repetitions_and_counterparts_are_dropped(tmp_path: Path, row, sentences, dropped) -> None:
    source = jsonl(tmp_path / "a.jsonl", [{"title": "The  Title", **row}])
    report, [document], _ = read(source, counterpart_column="title", **columns_of(row))
    assert document.sentences == sentences
    assert document.counterpart == row.get("title", "The  Title")
    assert (report.duplicate_sentences, report.counterpart_sentences) == dropped
    if "the title" in row.get("sentences", ()):
        assert "the title" in read(source)[1][0].sentences, "of no counterpart column"


def columns_of(row: dict[str, object]) -> dict[str, str]:
    return {f"{name}_column": name for name in ("text", "sentences") if name in row}


@pytest.mark.parametrize(
    "nothing", ["NULL", "null", " NaN ", "N/A", "None", "\\N", "#N/A", "", "  ", None]
)
def test_placeholders_are_no_text_and_no_counterpart(tmp_path: Path, nothing: str | None) -> None:
    rows = [
        {"text": "None came. NULL is a value.", "title": "T"},
        {"text": nothing, "title": "T"},
        {"text": "A b. C d.", "title": nothing},
    ]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert report.quarantined == {"empty": 1}
    [bad] = quarantined(out)
    blank = not (nothing and nothing.strip())
    assert (bad["row"], bad["excerpt"] == nothing) == (1, not blank)
    assert [document.counterpart for document in documents] == ["T", None]
    sentences = [["None came.", "NULL is a value."], ["A b.", "C d."]]
    assert [document.sentences for document in documents] == sentences
    assert report.documents_with_counterpart == 1


@pytest.mark.parametrize(
    ("text", "has_tags"),
    [
        ("<p>One is here.</p><br/> <p>Two.", True),
        ("One <A HREF='x'>link</A> here. Two.", True),
        ("If a < b and c > d, then stop. Two.", False),
        ("Write to <me@here.org>. Two.", False),
        ("One &lt;b&gt;is&lt;/b&gt; here. Two.", True),
        ("AT&amp;T is one. Two.", True),
        ("AT&T is one &c; two. Two.", False),
    ],
)
def test_html_is_counted_and_kept(tmp_path: Path, caplog, text: str, has_tags: bool) -> None:
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", [*texts(40), {"text": text}]))
    assert report.rows_with_tags == has_tags
    assert ("1 of 41" in caplog.text) is has_tags
    assert text.split()[0] in documents[-1].sentences[0]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<p>One <b>is</b> here.</p><p>Two</p><p>Three", ["One is here.", "Two", "Three"]),
        ("<script>if (a<b) x.</script>One.<!-- no. --> Two<br>lines.", ["One.", "Two lines."]),
        ("If a < b, then &amp;c. Two.", ["If a < b, then &c.", "Two."]),
        ("&lt;p title=&quot;a&gt;b&quot;&gt;One.&lt;/p&gt; Two.", ["One.", "Two."]),
        ("<pre>&lt;b&gt; is bold.</pre> Two.", ["<b> is bold.", "Two."]),
        ("One. <script>Is never closed. Two.", ["One.", "Is never closed.", "Two."]),
    ],
)
def test_html_is_removed_on_request(tmp_path: Path, text: str, sentences: list[str]) -> None:
    rows = [{"text": text, "title": "<i>A &amp; b</i>", "sentences": [f"<p>{text[:1]}A", "B."]}]
    source = jsonl(tmp_path / "a.jsonl", rows)
    columns = {"text_column": "text", "counterpart_column": "title", "strip_html": True}
    _, [document], _ = read(source, **columns)
    assert (document.sentences, document.counterpart) == (sentences, "A & b")
    _, [ready], _ = read(source, sentences_column="sentences", strip_html=True)
    assert not any("<p>" in sentence for sentence in ready.sentences)


@pytest.mark.parametrize(
    "piece", ["<b ", "<script>", "<!--", "<a x='", "<p></p>", "&lt;b&gt;", '<"']
)
def test_a_million_characters_of_html_take_seconds(piece: str) -> None:
    started = time.process_time()
    without_html(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 10


INVISIBLE_TEXTS = [
    "\u200b",
    "\ufe0f",
    "\u2060\u200d",
    "\ufeff",
    "\xad",
    "\a\x1b",
    "\u3164",
    "\u0301",
]


@pytest.mark.parametrize("nothing", INVISIBLE_TEXTS)
def test_invisible_characters_are_no_text_and_no_counterpart(tmp_path: Path, nothing: str) -> None:
    rows = [
        {"text": nothing, "title": "T"},
        {"text": f"A b. {nothing}\n\n{nothing}\n\nC d.", "title": nothing},
        {"text": f"{nothing}Visible{nothing}. Two.", "title": "T"},
    ]
    report, documents, _ = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert report.quarantined == {"empty": 1}
    assert [len(document.sentences) for document in documents] == [2, 2]
    assert [document.counterpart for document in documents] == [None, "T"]
    ready = [{"sentences": [nothing, "A b.", "C d."]}]
    assert read(jsonl(tmp_path / "b.jsonl", ready))[1][0].sentences == ["A b.", "C d."]


@pytest.mark.parametrize(("within", "warned"), [(5, True), (4, False)])
def test_titles_within_sentences_are_reported(
    tmp_path: Path, caplog, within: int, warned: bool
) -> None:
    """More than a tenth of the documents; titles of two words are topics."""
    rows = [
        {"title": f"Long title {k}", "text": f"See {'long title' if k < within else 'it,'} {k}. B."}
        for k in range(40)
    ]
    rows += [{"title": "Two words", "text": "See two words. B."} for _ in range(4)]
    report, _, _ = read(jsonl(tmp_path / "a.jsonl", rows), counterpart_column="title")
    assert report.rows_with_title == within
    assert (f"{within} of 44" in caplog.text) is warned


@pytest.mark.parametrize("at_once", [3, 1_024])
def test_repeated_documents_are_kept_and_reported(tmp_path: Path, monkeypatch, at_once) -> None:
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


def test_the_first_of_equal_ids_is_kept(tmp_path: Path) -> None:
    rows = [{"id": k % 3, "text": f"One of {k}. Two of {k}."} for k in range(7)]
    report, documents, out = read(jsonl(tmp_path / "a.jsonl", rows), id_column="id")
    ids = [(document.doc_id, document.source_row) for document in documents]
    assert ids == [("0", 0), ("1", 1), ("2", 2)]
    assert report.quarantined == {"duplicate-id": 4}
    assert [row["excerpt"] for row in quarantined(out)] == ["0", "1", "2", "0"]


def test_equal_ids_can_stop_the_reading(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(documents_module, "BATCH_ROWS", 2)
    rows = [{"id": f"d{k % 5}", "text": f"One of {k}. Two."} for k in range(20)]
    source = jsonl(tmp_path / "a.jsonl", rows)
    starts = [0, *accumulate(len(line) for line in source.read_bytes().splitlines(True))]
    with pytest.raises(DuplicateIdError) as caught:
        read(source, id_column="id", on_duplicate="error")
    for k in range(3):
        first, again = (f"a.jsonl, line {n + 1}, byte {starts[n]}" for n in (k, k + 5))
        assert f"'d{k}' in {first} and in {again}" in str(caught.value)
    assert "'d3'" not in str(caught.value), "three are enough"
    one = jsonl(tmp_path / "b.jsonl", [*rows[:5], rows[3]])
    with pytest.raises(DuplicateIdError, match=r"'d3' in b\.jsonl, line 4, byte .*, line 6, byte"):
        read(one, id_column="id", on_duplicate="error")
    monkeypatch.setattr(documents_module, "places", lambda config, numbers: {})
    with pytest.raises(DuplicateIdError) as caught:
        read(source, id_column="id", on_duplicate="error")
    assert "'d0' in row 0 and in" in str(caught.value), "the source changed meanwhile"


PLACES = {
    "a.csv": ("a.csv, line 2", "a.csv, line 5"),
    "a.json": ("a.json, element 0, byte 1", "a.json, element 2, byte 72"),
    "a.parquet": ("a.parquet, row 0", "a.parquet, row 2"),
}


@pytest.mark.parametrize("name", PLACES)
def test_both_places_of_an_equal_id_are_reported_in_every_format(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"id": id_, "text": "One.\nTwo."} for id_ in ("é", "b", "é")]
    source = tmp_path / name
    if name == "a.csv":
        source.write_text('id,text\né,One. Two.\nb,"One.\nTwo."\né,One. Two.\n')
    elif name == "a.json":
        source.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), source)
    first, again = PLACES[name]
    columns = "sentemb_core.corpus.columns"
    with (
        caplog.at_level("INFO", columns),
        pytest.raises(DuplicateIdError, match=f"'é' in {first} and in {again}\\."),
    ):
        read(source, id_column="id", on_duplicate="error")
    logged = [record for record in caplog.records if record.name == columns]
    assert len(logged) == 1, "the second reading logs no columns"


def test_a_sample_has_the_lowest_hashes_in_source_order(tmp_path: Path) -> None:
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
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        source = jsonl(tmp_path / f"{seed}.jsonl", rows)
        _, others, _ = read(source, id_column="id", max_documents=40)
        assert {document.doc_id for document in others} == lowest
        places = [document.source_row for document in others]
        assert places == sorted(places)
    report, documents, _ = read(jsonl(tmp_path / "c.jsonl", texts(5)), max_documents=50)
    assert (len(documents), report.not_drawn) == (5, 0)


def test_equal_input_gives_equal_bytes_at_any_path(tmp_path: Path) -> None:
    rows = [*texts(50), {"text": 3}, b"broken", {"text": "One. One. Two."}]
    files = []
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        _, _, out = read(jsonl(tmp_path / folder / "a.jsonl", rows), max_documents=20)
        files.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert files[0] == files[1]


def test_the_table_has_its_schema_and_bounded_row_groups(tmp_path: Path, monkeypatch) -> None:
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


def test_the_report_is_written_and_logged(tmp_path: Path, caplog) -> None:
    with caplog.at_level("INFO"):
        report, _, out = read(jsonl(tmp_path / "a.jsonl", [*texts(9), {"text": "Alone."}, b"x"]))
    assert CorpusReport.model_validate_json((out / "report.json").read_text()) == report
    assert (report.documents, report.sentences, report.rows_read) == (10, 28, 11)
    assert report.quarantined == {"broken-row": 1}
    assert re.search(r"\b10 .*\b28 .*\b11 .*\b1 broken-row", report.summary())
    assert report.summary() in caplog.text
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.args == (1, 10), "documents of one sentence"


@pytest.mark.parametrize(
    ("row", "options", "reason", "way_out"),
    [
        (b'{"data": [', {}, "broken-row", "JSON.*CSV"),
        (b'{"text": "\xff"}', {}, "encoding", "--encoding"),
        ({"text": ["One.", "Two."]}, {}, "not-a-string", "--sentences-column"),
        ({"text": "One."}, {"sentences_column": "text"}, "not-a-string", "--text-column"),
        ({"text": "A.", "n": 1}, {"counterpart_column": "n"}, "not-a-string", "--counterpart-c"),
        ({"text": "One.", "id": 0.5}, {"id_column": "id"}, "bad-id", "--id-column"),
        ({"text": ""}, {}, "empty", "$"),
    ],
)
def test_a_corpus_without_a_usable_row_is_e101(
    tmp_path: Path, row, options, reason: str, way_out: str
) -> None:
    out = tmp_path / "out-0"
    values = rf"^E101 .*\(3 .*: 3 .*\) .*{out / 'quarantine.parquet'}.*{way_out}"
    with pytest.raises(EmptyCorpusError, match=values) as caught:
        read(jsonl(tmp_path / "a.jsonl", [row] * 3), **options)
    assert caught.value.exit_code == 3
    assert [bad["reason"] for bad in quarantined(out)] == [reason] * 3
    assert json.loads((out / "report.json").read_text())["rows_read"] == 3


def test_each_reason_of_e101_has_its_count(tmp_path: Path) -> None:
    rows = [{"text": ""}] * 3 + [b'{"text": "\xff"}'] * 2
    with pytest.raises(EmptyCorpusError, match=r"\(5 .*: 3 .*, 2 .*\) .*--encoding"):
        read(jsonl(tmp_path / "a.jsonl", rows))
    with pytest.raises(EmptyCorpusError, match=r"\(4 .*: 4 .*\)"):
        read(jsonl(tmp_path / "a.jsonl", texts(4)), min_sentences=9)


def test_below_two_percent_of_documents_with_pairs_is_e102(tmp_path: Path) -> None:
    single = [{"text": f"Sentence {k}."} for k in range(99)]
    pair = [{"text": "One. Two."}]
    with pytest.raises(EmptyPairsError, match=r"E102 .* 99 of 100 "):
        read(jsonl(tmp_path / "a.jsonl", single + pair))
    with pytest.raises(EmptyPairsError, match=r" 1 of 1 "):
        read(jsonl(tmp_path / "one.jsonl", single[:1]))
    report, _, _ = read(jsonl(tmp_path / "b.jsonl", single[:49] + pair))
    assert (report.documents, report.documents_with_pairs) == (50, 1)


def test_sentences_of_one_document_equal_those_of_the_whole_corpus(tmp_path: Path) -> None:
    rows = [
        {"id": k, "title": "The title", "text": f"The title. One is {k}. Two. Two."}
        for k in range(3)
    ]
    rows.append({"id": "a", "title": None, "text": " "})
    source = jsonl(tmp_path / "a.jsonl", rows)
    columns = {"id_column": "id", "counterpart_column": "title"}
    config = CorpusConfig(source=str(source), splitter="regex", **columns)
    for document in read(source, **columns)[1]:
        assert sentences_of(config, document.doc_id) == document.sentences
    with pytest.raises(
        BadDataError, match=r"'a' \(a\.jsonl, line 4, .* empty\).*\['0', '1', '2'\]"
    ):
        sentences_of(config, "a")
    with pytest.raises(BadDataError, match=r"'b'\. .*\['0', '1', '2'\]"):
        sentences_of(config, "b")
