"""Where refused rows go: one table with the place, a reason code and an excerpt, counted."""

import re
import reprlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sentemb_core import schemas
from sentemb_core.corpus.row_groups import RowGroups

REASONS: dict[str, str] = {
    "broken-row": "broken",  # not a JSON object, or a CSV row of another width than its header
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
"""Reason code -> the words of a message. This table is the whole list."""

EXCERPT = 80
FLUSH = 4_096

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
    row: int
    reason: str
    text: object


class Quarantine:
    """Writes refused rows to a Parquet file of schemas.QUARANTINE and counts them by reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self._rows: list[dict[str, str | int]] = []
        self._file = RowGroups(path, schemas.QUARANTINE)

    def add(self, bad: BadRow) -> None:
        assert bad.reason in REASONS, f"{bad.reason!r} is not one of {sorted(REASONS)}"
        self.counts[bad.reason] += 1
        self._rows.append(
            {
                "where": printable(bad.where),
                "row": bad.row,
                "reason": bad.reason,
                "excerpt": excerpt(bad.text),
            }
        )
        if len(self._rows) >= FLUSH:
            self._flush()

    def __enter__(self) -> "Quarantine":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._file.write(pa.RecordBatch.from_pylist(self._rows, schemas.QUARANTINE))
        self._rows = []


def excerpt(value: object) -> str:
    """First characters of any value as printable text; of none the empty text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value[: 4 * EXCERPT].decode("utf-8", "surrogateescape")
    text = value if isinstance(value, str) else reprlib.repr(value)
    return printable(text[:EXCERPT])


def printable(text: str) -> str:
    """The text with NUL, undecoded bytes and lone surrogates spelled out: it fits any file."""
    bytes_told = _UNDECODED.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", text)
    return bytes_told.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
