"""The used columns of a table: named by option, or found under a usual name."""

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
NAME = 60  # characters of a column's name that a message shows
ID_COLUMNS = ("id", "doc_id", "docid", "_id")


class Row(NamedTuple):
    """What the used columns of one row hold, unchecked. Rows are counted from 0."""

    where: str
    number: int
    doc_id: object
    text: object
    sentences: object
    counterpart: object


def row_id(number: int) -> str:
    """The id of a row of a table without an id column."""
    return f"row-{number}"


class Columns(NamedTuple):
    """Names of the used columns; none where a row has no such value."""

    doc_id: str | None
    text: str | None
    sentences: str | None
    counterpart: str | None

    def row(self, where: str, number: int, record: Mapping[str, object]) -> Row:
        """The used values of a record. Without an id column the row number is the id."""
        doc_id, text, sentences, counterpart = (
            None if name is None else record.get(name) for name in self
        )
        return Row(
            where,
            number,
            row_id(number) if self.doc_id is None else doc_id,
            text,
            sentences,
            counterpart,
        )


def named_columns(config: CorpusConfig) -> Columns:
    """The columns that the settings name."""
    return Columns(
        config.id_column, config.text_column, config.sentences_column, config.counterpart_column
    )


def used_columns(config: CorpusConfig, found: Iterable[str]) -> Columns:
    """Named columns, checked; a body column is looked for when none is named (E104).

    A name may be spelt with composed letters (NFC) where the file has them decomposed (NFD), as
    some systems write them, or the reverse: they look alike.

    Raises:
        MissingColumnError: a column is not there, or none looks like a body.
        UsageError: a column is to be text and counterpart at once.
    """
    found = list(found)
    columns = Columns(*(name and _as_found(name, found) for name in named_columns(config)))
    for name in columns:
        if name is not None and name not in found:
            body = name in (columns.text, columns.sentences)
            raise MissingColumnError(
                f"No column {name!r}: found {_names(found)}{_hint(name, found, columns, body)}"
            )
    if columns.counterpart and columns.counterpart in (columns.text, columns.sentences):
        raise UsageError(
            f"A document looks for its counterpart; {columns.counterpart!r} is named as both, and "
            "would find itself. Name another --counterpart-column, or none."
        )
    if columns.text or columns.sentences:
        if _unused_ids(columns, found):
            log.info("ids: %s", _ids(columns, found))
        return columns
    for name in SENTENCE_COLUMNS + TEXT_COLUMNS:
        if name in found and name not in (columns.counterpart, columns.doc_id):
            field = "sentences" if name in SENTENCE_COLUMNS else "text"
            guessed = columns._replace(**{field: name})
            log.info("%s", _told(guessed, name, found))
            return guessed
    raise MissingColumnError(
        f"No column is named {', '.join(SENTENCE_COLUMNS + TEXT_COLUMNS)}: found {_names(found)}. "
        "Name one by --text-column or --sentences-column."
    )


def _as_found(name: str, found: list[str]) -> str:
    """The name, or the first column that differs from it in nothing but composed letters."""
    alike = [column for column in found if composed(column) == composed(name)]
    return name if name in found or not alike else alike[0]


def composed(text: str) -> str:
    """With composed letters (NFC): equal for names that look alike however they are written."""
    return unicodedata.normalize("NFC", text)


def _told(columns: Columns, name: str, found: list[str]) -> str:
    """What is read of a table whose text column nobody named."""
    unused = ", ".join(column for column in found if column not in columns) or "none"
    return (
        f"text from column {name!r} (guessed); ids: {_ids(columns, found)}; "
        f"counterpart: {columns.counterpart or 'none'}; unused columns: {unused}"
    )


def _ids(columns: Columns, found: list[str]) -> str:
    """Where ids come from, and the option for a column of ids that nobody named.

    None is taken unasked: what looks like ids may repeat or be empty, which loses documents.
    """
    if columns.doc_id:
        return columns.doc_id
    told = [f" (--id-column {name} takes column {name!r})" for name in _unused_ids(columns, found)]
    return "".join(["row numbers", *told[:1]])


def _unused_ids(columns: Columns, found: list[str]) -> list[str]:
    """Columns that look like ids, where none is named."""
    return [] if columns.doc_id else [name for name in ID_COLUMNS if name in found]


def _names(found: list[str]) -> str:
    """Names as a list; of a file without a header they are the cells of its first document."""
    return repr([name if len(name) <= NAME else f"{name[:NAME]} ..." for name in found])


def _hint(name: str, found: list[str], columns: Columns, body: bool) -> str:
    """The end of a sentence: the column most likely meant, of those not named as another one.

    One alike in letters, one with a word that begins so (ticket_id), or one usual for a body.
    """
    if (head := name.partition(".")[0]) in found and head != name:
        return f"; what lies inside {head!r} is not read: make columns of it first."
    free = [column for column in found if column not in columns]
    alike = difflib.get_close_matches(name, free, n=1)
    longer = [one for one in free if f"_{name}".lower() in f"_{one}".lower()]
    usual = [column for column in SENTENCE_COLUMNS + TEXT_COLUMNS if column in free]
    best = (alike or longer or (usual if body else []))[:1]
    return f", {did_you_mean(*best)}" if best else "."
