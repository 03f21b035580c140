"""Reader of JSON, as lines or as one array, decoded one object at a time."""

import codecs
import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Row, named_columns, used_columns
from sentemb_core.corpus.source import BOM, ROW_BYTES, lines, open_bytes, source_format
from sentemb_core.errors import UnreadableSourceError

PEEK_ROWS = 100  # their keys are taken as the columns


JsonRow = tuple[str, int, dict[str, object]]


def json_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows of a file: one object per line or, in .json, also one array of objects.

    The columns are the keys of the first records. The file is read again to find a named column
    that they lack: few records may have a counterpart.
    """
    keys = _keys(config)
    columns = None if keys is None else used_columns(config, keys)
    for record in _records(config):
        if isinstance(record, BadRow):
            yield record
        else:
            columns = columns or used_columns(config, record[2])
            yield columns.row(*record)


def _keys(config: CorpusConfig) -> list[str] | None:
    """Return the keys of the first records, and named columns of any; None without an object."""
    keys: dict[str, None] = {}
    objects = 0
    with closing(_records(config)) as records:
        for place, record in enumerate(records):
            if place >= PEEK_ROWS and keys.keys() >= set(filter(None, named_columns(config))):
                break
            if isinstance(record, BadRow):
                continue
            objects += 1
            wanted = record[2].keys() if place < PEEK_ROWS else named_columns(config)
            keys |= dict.fromkeys(key for key in wanted if key in record[2])
    return list(keys) if objects else None


def _records(config: CorpusConfig) -> Generator[JsonRow | BadRow]:
    with open_bytes(config) as file:
        start = file.peek(64).removeprefix(BOM.encode()).lstrip()[:1]
        is_array = start == b"[" and source_format(config.source) == "json"
        yield from (_json_array if is_array else _json_lines)(config, file)


def _json_lines(config: CorpusConfig, file: BufferedReader) -> Iterator[JsonRow | BadRow]:
    name = Path(config.source).name
    decode = json.JSONDecoder(strict=False).decode  # a raw NUL or tab in a string is checked later
    offset = 0
    for number, line in enumerate(lines(file)):
        start, offset = offset, offset + len(line)
        where = f"{name}, line {number + 1}, byte {start}"
        if line.isspace():
            continue
        if len(line) >= ROW_BYTES and not line.endswith(b"\n"):
            yield BadRow(where, number, "over-long", line)
            for part in lines(file):
                offset += len(part)
                if part.endswith(b"\n"):
                    break
            continue
        try:
            record = decode(line.decode(config.encoding).removeprefix(BOM))
        except UnicodeDecodeError as error:
            where = f"{name}, line {number + 1}, byte {start + error.start}"
            yield BadRow(where, number, "encoding", line)
        except (ValueError, RecursionError):
            yield BadRow(where, number, "broken-row", line)
        else:
            yield _record(where, number, record)


def _json_array(config: CorpusConfig, file: BufferedReader) -> Iterator[JsonRow | BadRow]:
    """Yield the elements of one JSON array, decoded one at a time from a window over the file."""
    name = Path(config.source).name
    window = _Window(config, file)
    window.skip("[")
    for number in count():
        if window.next_is("]"):
            window.skip("]")
            window.end()
            return
        if number:
            window.skip(",")
        place = f", byte {window.byte()}" if window.is_utf8 else ""
        element = window.element(number)
        yield _record(f"{name}, element {number}{place}", number, element)


def _record(where: str, number: int, value: Any) -> JsonRow | BadRow:
    is_object = isinstance(value, dict)
    return (where, number, value) if is_object else BadRow(where, number, "broken-row", value)


class _Window:
    """The undecoded part of a JSON array, read block by block as elements need it.

    A library (ijson) was not an option: it stops at the first byte that is not UTF-8 and at a raw
    control character, where this reader refuses one row. It also gives no byte offsets.

    Attributes:
        is_utf8: Whether the text gives back the bytes that it was read from. In other encodings an
            element is named by its number only, without its byte.
    """

    BLOCK = 1 << 20
    SPACE = re.compile(r"[ \t\r\n\ufeff]*")

    def __init__(self, config: CorpusConfig, file: BufferedReader) -> None:
        self._file = file
        self._config = config
        self._decode = json.JSONDecoder(strict=False).raw_decode
        incremental = codecs.getincrementaldecoder(config.encoding)
        self._incoming = incremental("surrogateescape").decode  # refused row by row
        self._text = ""
        self._at = 0
        self._byte = self._counted = 0  # bytes before the character `_counted`
        self.is_utf8 = codecs.lookup(config.encoding).name == "utf-8"

    def byte(self) -> int:
        """Return the offset of the next value in the unzipped UTF-8 file."""
        self.next_is("")
        self._count()
        return self._byte

    def _count(self) -> None:
        if self.is_utf8:
            passed = self._text[self._counted : self._at]
            self._byte += len(passed.encode("utf-8", "surrogateescape"))
        self._counted = self._at

    def next_is(self, mark: str) -> bool:
        """Return whether the next character after white space is `mark`."""
        while True:
            match = self.SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._grow(self.BLOCK):
                return self._text.startswith(mark, self._at)

    def skip(self, mark: str) -> None:
        if not self.next_is(mark):
            raise self._broken(f"expected {mark!r}")
        self._at += 1

    def end(self) -> None:
        """Check that only white space follows."""
        self.next_is("")
        if self._at < len(self._text):
            raise self._broken("more text follows its end")

    def element(self, number: int) -> object:
        """Return the next value; the window doubles until it holds the value and its end."""
        self.next_is("")
        size = self.BLOCK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                if end < len(self._text) or not self._grow(size):
                    self._at = end
                    return value
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at >= ROW_BYTES or not self._grow(size):
                    raise self._broken(f"element {number}: {error}") from error
            size = min(2 * size, ROW_BYTES)

    def _grow(self, size: int) -> bool:
        """Append up to `size` bytes of text and drop decoded text; return False at the end."""
        data = self._file.read(size)
        self._count()
        self._counted = 0
        self._text = self._text[self._at :] + self._incoming(data)
        self._at = 0
        return bool(data)

    def _broken(self, what: str) -> UnreadableSourceError:
        excerpt = self._text[self._at : self._at + 40]
        return UnreadableSourceError(
            f"The JSON array of {self._config.source} is broken: {what}, found {excerpt!r}. Repair "
            "it, or write one object per line (JSONL), where a bad row costs no other row."
        )
