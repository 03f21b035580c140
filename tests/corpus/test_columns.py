"""Columns are found by name or guessed; absent and ambiguous names are refused."""

import logging
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.columns import used_columns
from sentemb_core.errors import MissingColumnError, UsageError
from tests.corpus.made import as_json, jsonl, read


def table(path: Path, column: str) -> Path:
    """One row of a text and another column, in the format of the suffix."""
    row = {"text": "Eins. Zwei.", column: "Titel"}
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([row]), path)
    elif path.suffix == ".csv":
        path.write_text(f"text,{column}\nEins. Zwei.,Titel\n", encoding="utf-8")
    else:
        (as_json if path.suffix == ".json" else jsonl)(path, [row])
    return path


FORMATS = ["a.jsonl", "a.json", "a.csv", "a.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_matches_its_other_unicode_form(tmp_path: Path, name: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Überschrift") for form in ("NFC", "NFD"))
    for named, found in ((composed, decomposed), (decomposed, composed)):
        source = table(tmp_path / name, found)
        assert read(source, counterpart_column=named)[1][0].counterpart == "Titel"


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_column_is_refused_with_the_names_found(tmp_path: Path, name: str) -> None:
    source = table(tmp_path / name, "title")
    for option in ("text_column", "id_column", "counterpart_column"):
        with pytest.raises(MissingColumnError) as caught:
            read(source, **{option: "absent"})
        assert "E104" in str(caught.value)
        assert f"'absent' (--{option.replace('_', '-')})" in str(caught.value)
        assert "['text', 'title']" in str(caught.value)
    assert read(source)[0].documents == 1


@pytest.mark.parametrize(
    ("options", "columns", "suggested"),
    [
        ({"text_column": "text"}, ["ident", "body"], "'body'"),  # a usual text column
        ({"id_column": "id"}, ["ticket_id", "body"], "'ticket_id'"),  # a word of its name
        ({"counterpart_column": "subjekt"}, ["body", "subject"], "'subject'"),  # letters
        ({"id_column": "number"}, ["ticket_id", "body"], None),
        ({"counterpart_column": "titel", "text_column": "body"}, ["body", "subject"], None),
        (
            {"counterpart_column": "tickets", "id_column": "ticket", "text_column": "body"},
            ["ticket", "body", "subject"],
            None,  # `ticket` has a use
        ),
        ({"id_column": "body.id"}, ["body"], "'body'"),  # not read inside it,
    ],
)
def test_a_likely_column_is_suggested(options, columns: list[str], suggested: str | None) -> None:
    with pytest.raises(MissingColumnError) as caught:
        used_columns(CorpusConfig(source="a", **options), columns)
    message = str(caught.value).partition("]")[2]
    quoted = {f"{column!r}" for column in columns if f"{column!r}" in message}
    assert quoted == ({suggested} if suggested else set())


@pytest.mark.parametrize("column", ["id", "doc_id", "docid", "_id", None])
def test_guessed_text_and_unnamed_ids_are_logged_until_named(caplog, column: str | None) -> None:
    names = [column or "key", "tag", "body"]
    with caplog.at_level(logging.INFO, "sentemb_core.corpus.columns"):
        both = {"text_column": "body", "id_column": names[0]}
        used_columns(CorpusConfig(source="a", **both), names)
        assert caplog.messages == []
        guessed = used_columns(CorpusConfig(source="a"), names)
        assert (guessed.text, guessed.doc_id) == ("body", None), "no id column is guessed"
        used_columns(CorpusConfig(source="a", text_column="body"), names)
    first, *others = caplog.records
    text, ids, *rest = first.args
    assert (text, rest) == ("body", ["none", f"{names[0]}, tag"])
    assert f"--id-column {column} " in ids if column else "--" not in ids
    assert [record.args for record in others] == ([(ids, "none")] if column else [])


def test_a_usual_counterpart_is_named_until_it_is_used(caplog) -> None:
    with caplog.at_level(logging.INFO, "sentemb_core.corpus.columns"):
        for column in (None, "title"):
            given = {"id_column": "id", "counterpart_column": column}
            used_columns(CorpusConfig(source="a", **given), ["id", "title", "body"])
    unnamed, named = (record.args[2] for record in caplog.records)
    assert ("--counterpart-column title " in unnamed, named) == (True, "title")


def test_a_table_without_a_usual_text_column_is_refused() -> None:
    with pytest.raises(MissingColumnError, match=r"\['message'\].*--text-column"):
        used_columns(CorpusConfig(source="a"), ["message"])


def test_text_and_counterpart_are_two_columns() -> None:
    same = {"text_column": "body", "counterpart_column": "body"}
    with pytest.raises(UsageError, match=r"'body' .*--counterpart-column"):
        used_columns(CorpusConfig(source="a", **same), ["body", "content"])
    for taken in ("counterpart_column", "id_column"):
        columns = used_columns(CorpusConfig(source="a", **{taken: "body"}), ["body", "content"])
        assert columns.text == "content", "a column named for another use is not guessed"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_column_may_first_occur_in_a_late_row(tmp_path: Path, name: str) -> None:
    rows = [{"body": f"Document {number}. End."} for number in range(250)]
    rows[200]["title"] = "A title"
    source = (as_json if name == "a.json" else jsonl)(tmp_path / name, rows)
    _, documents, _ = read(source, text_column="body", counterpart_column="title")
    assert len(documents) == 250
    assert {found.doc_id: found.counterpart for found in documents if found.counterpart} == {
        "row-200": "A title"
    }
    with pytest.raises(
        MissingColumnError, match=r"'titles' \(--counterpart-column\): .*\['body'\]"
    ):
        read(source, text_column="body", counterpart_column="titles")
