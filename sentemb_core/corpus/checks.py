"""Checks of raw rows: a row becomes a document, or goes to the quarantine with a reason code."""

import re
import reprlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb_core import schemas
from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.columns import Row
from sentemb_core.corpus.markup import has_html, without_html
from sentemb_core.corpus.sentences import Splitter, is_blank
from sentemb_core.corpus.table import Document, RowGroups
from sentemb_core.corpus.titles import Title

REASONS: dict[str, str] = {
    "broken-row": "broken",  # not a JSON object, or a CSV row with another number of cells
    "encoding": "of another encoding",  # bytes outside the named encoding, or lone surrogates
    "nul": "with NUL",  # U+0000 in a used column
    "not-a-string": "not text",  # a used column holds another type
    "bad-id": "without a usable id",  # neither a string nor an integer, or empty
    "empty": "empty",  # no sentence is left
    "only-counterpart": "without text besides the counterpart",
    "over-long": "over-long (corpus.max_characters; of a counterpart 10,000)",  # or of its row
    "duplicate-id": "with a repeated id",  # an earlier usable row has this id
    "unknown-id": "with an id that no row of the corpus has",  # of a label
    "left-out": "of documents that the run leaves out",  # of a label; a row has its id
    "duplicate-label": "equal to an earlier label",  # an earlier label pairs the same two
}
"""Reason code -> text for a message. These are all reasons."""

EXCERPT = 80
FLUSH = 4_096

PLACEHOLDERS = frozenset(
    ("null", "NULL", "Null", "None", "nan", "NaN", "NAN", "N/A", "n/a", "#N/A", "<NA>", "\\N")
)
"""Texts that databases and spreadsheets write for an absent value."""

_UNDECODED = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of a byte


class RefusedError(ValueError):
    """A row that cannot become a document: reason code and the text to quote."""

    def __init__(self, reason: str, text: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.text = text


@dataclass(frozen=True, slots=True)
class BadRow:
    """A refused row: file and place in it, row counted from 0, reason code, text to quote."""

    where: str
    number: int
    reason: str
    text: object


class Quarantine:
    """Writes refused rows to a Parquet file of schemas.QUARANTINE and counts them by reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self._rows: list[tuple[str, int, str, str]] = []
        self._file = RowGroups(path, schemas.QUARANTINE)

    def add(self, row: Row | BadRow, reason: str, text: object) -> None:
        assert reason in REASONS, f"{reason!r} is not one of {sorted(REASONS)}"
        self.counts[reason] += 1
        self._rows.append((printable(row.where), row.number, reason, excerpt(text)))
        if len(self._rows) >= FLUSH:
            self._flush()

    def __enter__(self) -> "Quarantine":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._file.write(zip(*self._rows, strict=True))
        self._rows = []


def excerpt(value: object) -> str:
    """Return the first characters of any value as printable text; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value[: 4 * EXCERPT].decode("utf-8", "surrogateescape")
    text = value if isinstance(value, str) else reprlib.repr(value)
    return printable(text[:EXCERPT])


def printable(text: str) -> str:
    """Return the text with NUL, undecoded bytes and lone surrogates escaped: it fits any file."""
    escaped = _UNDECODED.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", text)
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def checked_document(
    row: Row | BadRow, config: CorpusConfig, split: Splitter, counts: Counter[str]
) -> Document:
    """Return the document of a row, or raise RefusedError with the reason.

    A column of sentences takes precedence over running text. Repeated sentences are dropped and
    counted. So is the counterpart as a sentence or as a heading, with or without marks and a label:
    a document must not contain its own title.
    """
    if isinstance(row, BadRow):
        raise RefusedError(row.reason, row.text)
    doc_id = usable_id(row.doc_id)
    if config.strip_html:
        row = _without_html(row)
    counterpart = usable_counterpart(row.counterpart)
    title = None if counterpart is None else Title(counterpart)
    text: Any = row.text
    running = row.sentences is None and isinstance(text, str)
    if title and running and (body := title.text_below(text)) is not None:
        row = row._replace(text=body)
        counts["counterpart_sentences"] += 1
    split_sentences = _sentences(row, config, split)
    unique = list(dict.fromkeys(split_sentences))
    counts["duplicate_sentences"] += len(split_sentences) - len(unique)
    sentences = unique
    if title:
        sentences = [sentence for sentence in unique if not title.is_sentence(sentence)]
        counts["counterpart_sentences"] += len(unique) - len(sentences)
    if not sentences:
        raise RefusedError("only-counterpart" if unique else "empty", counterpart or "")
    kept = sentences[: config.max_sentences]
    joined = " ".join(kept)
    counts["rows_with_tags"] += has_html(joined)
    counts["rows_with_title"] += title is not None and title.is_within(joined)
    return Document(doc_id, kept, counterpart, row.number)


def _without_html(row: Row) -> Row:
    """Return the row with the words of HTML in its text, sentences and counterpart."""

    def words(value: Any) -> object:
        return without_html(value) if isinstance(value, str) else value

    items: Any = row.sentences
    sentences = list(map(words, items)) if isinstance(items, list) else items
    return row._replace(
        text=words(row.text), sentences=sentences, counterpart=words(row.counterpart)
    )


def _sentences(row: Row, config: CorpusConfig, split: Splitter) -> list[str]:
    if row.sentences is None:
        if row.text is None or (isinstance(row.text, str) and row.text.strip() in PLACEHOLDERS):
            raise RefusedError("empty", row.text or "")
        sentences = split(_clean(row.text, config.max_characters))
        return [sentence for sentence in sentences if not is_blank(sentence)]
    if not isinstance(row.sentences, list):
        raise RefusedError("not-a-string", row.sentences)
    items: list[Any] = [item for item in row.sentences if item is not None]
    if not all(isinstance(item, str) for item in items):
        raise RefusedError("not-a-string", items)
    _clean("\n".join(items), config.max_characters)
    if config.splitter == "words":
        items = [part for item in items for part in split(item)]
    return [item.strip() for item in items if not is_blank(item)]


def _clean(text: object, max_characters: int) -> str:
    """Return the text if every later stage can hold it, or raise RefusedError."""
    if not isinstance(text, str):
        raise RefusedError("not-a-string", text)
    if len(text) > max_characters:
        raise RefusedError("over-long", text)
    if "\0" in text:
        raise RefusedError("nul", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RefusedError("encoding", text[error.start :]) from error
    return text


def usable_id(value: object) -> str:
    """Return the text of an id, or raise RefusedError."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise RefusedError("bad-id", value)
    try:
        return _clean(str(value), max_characters=1_000)
    except RefusedError as error:
        raise RefusedError("bad-id", value) from error


def usable_counterpart(value: object) -> str | None:
    """Return the text of a counterpart, None for an empty one, or raise RefusedError."""
    text = "" if value is None else _clean(value, max_characters=10_000).strip()
    return None if text in PLACEHOLDERS or is_blank(text) else text
