"""The used columns of a table: named by an option, or found under a usual name."""

import difflib
import logging
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sentemb_core.config.run import CorpusConfig
from sentemb_core.errors import MissingColumnError, UsageError
from sentemb_core.formats import did_you_mean

log = logging.getLogger(__name__)

SENTENCE_COLUMNS = ("sentences", "titles")
TEXT_COLUMNS = ("text", "body", "content", "document", "article", "abstract")
ID_COLUMNS = ("id", "doc_id", "docid", "_id")
COUNTERPARTS = ("title", "headline", "query", "question", "subject")
NAME, SHOWN = 60, 40  # characters of a column's name, and columns, in a message


class Row(NamedTuple):
    """The unchecked values of the used columns of one row. Rows are counted from 0."""

    where: str
    number: int
    doc_id: object
    text: object
    sentences: object
    counterpart: object


def row_id(number: int) -> str:
    """Return the id of a row in a table without an id column."""
    return f"row-{number}"


OPTIONS = ("--id-column", "--text-column", "--sentences-column", "--counterpart-column")
LABEL_OPTIONS = ("labels.id_column", "labels.counterpart_column", "", "")


class LabelSource(CorpusConfig):
    """A label file that is read as a corpus: its counterparts are the texts."""


class Columns(NamedTuple):
    """Names of the used columns; None where a table has no such column."""

    doc_id: str | None
    text: str | None
    sentences: str | None
    counterpart: str | None

    def row(self, where: str, number: int, record: Mapping[str, object]) -> Row:
        """Return the used values of a record. Without an id column the row number is the id."""
        values = [None if name is None else record.get(name) for name in self]
        doc_id = row_id(number) if self.doc_id is None else values[0]
        return Row(where, number, doc_id, *values[1:])


def named_columns(config: CorpusConfig) -> Columns:
    """Return the columns that the settings name."""
    return Columns(
        config.id_column, config.text_column, config.sentences_column, config.counterpart_column
    )


def used_columns(config: CorpusConfig, names: Iterable[str]) -> Columns:
    """Return the named columns after a check; guess a text column if none is named.

    A setting may spell a name in composed letters (NFC) and the file in decomposed ones (NFD), or
    the reverse: both look alike.

    Raises:
        MissingColumnError: E104, a column is absent, or no column looks like a text.
        UsageError: one column is named as text and as counterpart.
    """
    names = list(names)
    columns = Columns(*(name and _spelled(name, names) for name in named_columns(config)))
    options = LABEL_OPTIONS if isinstance(config, LabelSource) else OPTIONS
    for name, option in zip(columns, options, strict=True):
        if name is not None and name not in names:
            is_text = name in (columns.text, columns.sentences)
            raise MissingColumnError(
                f"No column {name!r} ({option}): found {listed(names)}"
                f"{_hint(name, names, columns, is_text)}"
            )
    if columns.counterpart and columns.counterpart in (columns.text, columns.sentences):
        raise UsageError(
            f"Text and counterpart must be two columns; {columns.counterpart!r} is named as both. "
            "Name another --counterpart-column, or leave it out."
        )
    # no id column is guessed: its values may repeat or be empty, and documents would be lost
    # nor a counterpart: a wrong one would judge the run by the wrong task
    free = [name for name in names if name not in columns]
    id_hint = "" if columns.doc_id else _unused("--id-column", ID_COLUMNS, free)
    hint = "" if columns.counterpart else _unused("--counterpart-column", COUNTERPARTS, free)
    ids = columns.doc_id or f"row numbers{id_hint}"
    counterpart = columns.counterpart or f"none{hint}"
    if columns.text or columns.sentences:
        if id_hint:
            log.info("ids: %s; counterpart: %s", ids, counterpart)
        return columns
    for name in SENTENCE_COLUMNS + TEXT_COLUMNS:
        if name in names and name not in (columns.counterpart, columns.doc_id):
            guessed = columns._replace(
                **{"sentences" if name in SENTENCE_COLUMNS else "text": name}
            )
            log.info(
                "text from column %r (guessed); ids: %s; counterpart: %s; unused columns: %s",
                name,
                ids,
                counterpart,
                ", ".join(column for column in names if column not in guessed) or "none",
            )
            return guessed
    raise MissingColumnError(
        f"No column is named {', '.join(SENTENCE_COLUMNS + TEXT_COLUMNS)}: found "
        f"{listed(names)}. Name the text by --text-column or --sentences-column."
    )


def _unused(option: str, usual: Iterable[str], names: list[str]) -> str:
    """Return the option that would use a column with a usual name, or ""."""
    name = next((name for name in usual if name in names), None)
    return f" ({option} {name} uses column {name!r})" if name else ""


def _spelled(name: str, names: list[str]) -> str:
    """Return the name, or the first column that differs from it in composed letters only."""
    alike = [column for column in names if composed(column) == composed(name)]
    return name if name in names or not alike else alike[0]


def composed(text: str) -> str:
    """Return the text with composed letters (NFC): equal for names that look alike."""
    return unicodedata.normalize("NFC", text)


def listed(names: list[str]) -> str:
    """Return the names, cut: without a header they are the cells of the first document."""
    shown = [name if len(name) <= NAME else f"{name[:NAME]} ..." for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{shown}{more}"


def _hint(name: str, names: list[str], columns: Columns, is_text: bool) -> str:
    """Return the end of the message: the column that was most likely meant.

    That is a column with similar letters, with a word that begins so (ticket_id), or a usual text
    column. Columns named for another use are left out.
    """
    if (head := name.partition(".")[0]) in names and head != name:
        return f"; values inside {head!r} are not read: make columns of them first."
    free = [column for column in names[:1_000] if column not in columns]
    similar = difflib.get_close_matches(name, free, n=1)
    longer = [column for column in free if f"_{name}".lower() in f"_{column}".lower()]
    usual = [column for column in SENTENCE_COLUMNS + TEXT_COLUMNS if column in free]
    best = (similar or longer or (usual if is_text else []))[:1]
    return f", {did_you_mean(*best)}" if best else "."
