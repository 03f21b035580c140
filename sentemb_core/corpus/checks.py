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
from sentemb_core.corpus.sentences import Splitter, same_text
from sentemb_core.corpus.table import Document, RowGroups

REASONS: dict[str, str] = {
    "broken-row": "broken",  # not a JSON object, or a CSV row with another number of cells
    "encoding": "of another encoding",  # bytes outside the named encoding, or lone surrogates
    "nul": "with NUL",  # U+0000 in a used column
    "not-a-string": "not text",  # a used column holds another type
    "bad-id": "without a usable id",  # neither a string nor an integer, or empty
    "empty": "empty",  # no sentence is left
    "over-long": "over-long (corpus.max_characters; of a counterpart 10,000)",  # or of its row
    "duplicate-id": "with a repeated id",  # an earlier usable row has this id
    "unknown-id": "with an id that no row of the corpus has",  # of a label
    "left-out": "of documents that the run leaves out",  # of a label; a row has its id
    "duplicate-label": "equal to an earlier label",  # an earlier label pairs the same two
}
"""Reason code -> text for a message. These are all reasons."""

EXCERPT = 80
FLUSH = 4_096

END_MARKS = ".!?:…。！？ "  # noqa: RUF001
"""Marks after a title that is the first line of its text."""

PLACEHOLDERS = frozenset(
    ("null", "NULL", "Null", "None", "nan", "NaN", "NAN", "N/A", "n/a", "#N/A", "<NA>", "\\N")
)
"""Texts that databases and spreadsheets write for an absent value."""

_TAG = re.compile(
    r"</?(?:p|br|div|span|li|ul|ol|td|tr|table|h[1-6]|a|b|i|em|strong)\b[^<>]*>", re.I
)
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

    A column of sentences takes precedence over running text. Repeated sentences, and sentences
    equal to the counterpart, are dropped and counted. So is a first line that is the counterpart,
    with or without an end mark: a document must not contain its own title.
    """
    if isinstance(row, BadRow):
        raise RefusedError(row.reason, row.text)
    doc_id = usable_id(row.doc_id)
    counterpart = usable_counterpart(row.counterpart)
    if counterpart is not None and (body := _text_below_title(row, counterpart)) is not None:
        row = row._replace(text=body)
        counts["counterpart_sentences"] += 1
    split_sentences = _sentences(row, config, split)
    unique = list(dict.fromkeys(split_sentences))
    counts["duplicate_sentences"] += len(split_sentences) - len(unique)
    sentences = unique
    if counterpart is not None:
        key = same_text(counterpart)
        sentences = [sentence for sentence in unique if same_text(sentence) != key]
        counts["counterpart_sentences"] += len(unique) - len(sentences)
    if not sentences:
        raise RefusedError("empty", counterpart or "")
    counts["rows_with_tags"] += any("<" in text and _TAG.search(text) for text in sentences)
    return Document(doc_id, sentences[: config.max_sentences], counterpart, row.number)


def _text_below_title(row: Row, title: str) -> str | None:
    """Return the text below a first line that is the title; None if the first line is another."""
    text = row.text
    if row.sentences is not None or not isinstance(text, str):
        return None
    line, _, body = text.lstrip().partition("\n")
    return body if title_key(line) == title_key(title) and body.strip() else None


def title_key(text: str) -> str:
    """Return a key that is equal for titles that differ in case, white space and end marks."""
    return same_text(text).rstrip(END_MARKS)


def _sentences(row: Row, config: CorpusConfig, split: Splitter) -> list[str]:
    if row.sentences is None:
        if row.text is None or (isinstance(row.text, str) and row.text.strip() in PLACEHOLDERS):
            raise RefusedError("empty", row.text or "")
        return split(_clean(row.text, config.max_characters))
    if not isinstance(row.sentences, list):
        raise RefusedError("not-a-string", row.sentences)
    items: list[Any] = [item for item in row.sentences if item is not None]
    if not all(isinstance(item, str) for item in items):
        raise RefusedError("not-a-string", items)
    _clean("\n".join(items), config.max_characters)
    return [sentence for item in items if (sentence := item.strip())]


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
    return None if text in PLACEHOLDERS else text or None
