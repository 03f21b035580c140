"""Reader of CSV and TSV files with a header. A broken row costs no other row."""

import csv
import json
import logging
import re
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import EXCERPT, BadRow
from sentemb_core.corpus.columns import Columns, Row, listed, used_columns
from sentemb_core.corpus.source import BOM, ROW_BYTES, open_bytes, source_format
from sentemb_core.errors import MissingColumnError, UnreadableSourceError

log = logging.getLogger(__name__)


class _StrayQuoteError(csv.Error):
    """No quote closes a cell, or text follows the quote that closes it."""


def csv_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows below the header. Quotes are as spreadsheets write them."""
    name = Path(config.source).name
    csv.field_size_limit(max(config.max_characters, 1 << 17))
    with open_bytes(config) as file:
        lines = _Lines(file, config.encoding)
        first = lines.skip_blank()
        mark = "\t" if source_format(config.source) == "tsv" else ""
        if stated := re.fullmatch(r'"?sep=([^"\s]|\t)"?\s*', first):  # the first line of Excel
            mark = stated[1]
            first = lines.skip_first()
        mark = mark or separator(first)
        rows = _rows(lines, mark)
        header, columns = _header(next(rows, []), lines, config)
        used = {name: header.index(name) for name in columns if name is not None}
        swallowing: list[str] = []
        for number, cells in enumerate(rows):
            where = f"{name}, line {lines.number}"
            if isinstance(cells, csv.Error) and _over_long(cells):
                yield BadRow(where, number, "over-long", lines.first)
            elif lines.bad_byte is not None:
                yield BadRow(f"{name}, byte {lines.bad_byte}", number, "encoding", lines.first)
            elif isinstance(cells, csv.Error) or len(cells) != len(header):
                yield BadRow(where, number, "broken-row", lines.first)
            else:
                record: dict[str, Any] = {name: cells[place] for name, place in used.items()}
                if lines.count > 2 and _has_rows(cells, mark):
                    swallowing.append(f"line {lines.number} ({lines.count} lines)")
                if columns.sentences:
                    record[columns.sentences] = _json_list(record[columns.sentences])
                yield columns.row(where, number, record)
        if swallowing:
            log.warning(
                "%s: rows with a quoted cell whose lines all look like rows: %d (first: %s). If a "
                "quote is open there, it hides these rows: close or remove it.",
                name, len(swallowing), swallowing[0],
            )  # fmt: skip


def _has_rows(cells: list[str], delimiter: str) -> bool:
    """Return whether every further line of a cell has as many delimiters as the row of `cells`."""
    delimiters = len(cells) - 1
    lines = max(cells, key=len).splitlines()[1:]
    return delimiters > 0 and all(line.count(delimiter) == delimiters for line in lines)


def _header(
    header: list[str] | csv.Error, lines: "_Lines", config: CorpusConfig
) -> tuple[list[str], Columns]:
    """Return the names of all columns, and those in use.

    Raises:
        UnreadableSourceError: a byte is not of the encoding.
        MissingColumnError: a quote is stray, names repeat, or no name is that of a used column.
    """
    name = Path(config.source).name
    if lines.bad_byte is not None:
        raise UnreadableSourceError(
            f"The header of {name} is not {config.encoding} at byte {lines.bad_byte}: name another "
            "--encoding."
        )
    if isinstance(header, _StrayQuoteError):
        raise MissingColumnError(
            f"A quoted column name of {name} must end with a quote before the next separator: "
            f"found {lines.first[:EXCERPT]!r} in line {lines.number}. Close or remove the quote."
        )
    if isinstance(header, csv.Error):
        raise header
    if len(set(header)) < len(header):
        raise MissingColumnError(
            f"Column names of {name} must be unique: found {listed(header)}. Rename the repeated "
            "columns."
        )
    try:
        return header, used_columns(config, header)
    except MissingColumnError as error:
        if len(header) > 1:
            raise
        raise MissingColumnError(
            f"{error.args[0]} The first line of {name} is one column: separate columns with "
            "commas, semicolons or tabs, or name another mark in a line before it (sep=|)."
        ) from error


def separator(header: str) -> str:
    """Return the first mark outside quotes in the header, of comma, semicolon and tab.

    Spreadsheets write semicolons where a comma is the decimal mark; databases write tabs.
    """
    unquoted = re.sub(r'"[^"]*("|$)', "", header)
    return next((mark for mark in ",;\t" if mark in unquoted), ",")


def _rows(lines: "_Lines", delimiter: str) -> Iterator[list[str] | csv.Error]:
    """Yield the cells of the header and of all rows, or what is wrong with a row.

    Lines of a quoted cell may look like rows. If text follows a quote that closes a cell in a later
    line, or if no quote closes it, the opening quote is the fault. The later lines are read again.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.begin_row()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = error
            if not (_over_long(error) and lines.skip_row(delimiter)):
                row = _StrayQuoteError()
                if lines.count == 1 and not _over_long(error):
                    row = _cells(lines.first, delimiter)
                lines.read_again()
        if row:
            yield row


def _cells(line: str, delimiter: str) -> list[str] | csv.Error:
    """Return the cells of a row of one line, where text may follow a quote that closes a cell."""
    texts = iter([line, ""])
    try:
        cells = next(csv.reader(texts, delimiter=delimiter))
    except csv.Error as error:
        return error
    return cells if next(texts, None) == "" else _StrayQuoteError()


class _Lines:
    """The decoded lines of a file for `csv.reader`; at most ROW_BYTES are read of one row.

    Attributes:
        first: The first line of the row.
        number: The number of this line in the file, counted from 1.
        count: How many lines of the row were read.
        bad_byte: The offset of the row's first byte that is not of the encoding.
    """

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        self.first = self._last = ""
        self.number = 1
        self.count = 0
        self.bad_byte: int | None = None
        self._file = file
        self._encoding = encoding
        self._start = self._second = self._end = 0  # offsets: two lines, and what is read
        self._ahead = BytesIO()  # lines after the first, as bytes: many strings are larger
        self._looked_ahead = False

    def skip_blank(self) -> str:
        """Return the first line that is not blank. It is the next line, too."""
        while line := self._line():
            if (text := self._decoded(line)).strip():
                self._ahead = BytesIO(line)
                return text
            self._end += len(line)
            self.number += 1
        return ""

    def skip_first(self) -> str:
        """Skip the line that `skip_blank` returned; return the next one that is not blank."""
        self._end += len(self._ahead.read())
        self.number += 1
        return self.skip_blank()

    def begin_row(self) -> None:
        """Begin a row with the next line."""
        self.number += self.count
        self.count = 0
        self.bad_byte = None
        self._start = self._end
        self._looked_ahead = False

    def read_again(self) -> None:
        """Begin the next row with the second line of this one."""
        if self._looked_ahead:
            self._ahead.seek(0)
        self.count = 1
        self._end = self._second
        if self.bad_byte is not None and self.bad_byte >= self._end:
            self.bad_byte = None

    def skip_row(self, delimiter: str) -> bool:
        """Skip to the end of a row with a field over the limit; return whether the row ends."""
        quoted = _quoted_after(self._last, self.count > 1, delimiter)
        while quoted and (line := next(self, None)) is not None:
            quoted = _quoted_after(line, True, delimiter)
        return quoted is False or (quoted is None and self.count == 1)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._next_ahead() if self.count else self._line()
        if not line:
            raise StopIteration
        if not self.count and len(line) >= ROW_BYTES and not line.endswith(b"\n"):
            self._skip_line(line)
        self._last = self._decoded(line)
        self._end += len(line)
        self.count += 1
        if self.count == 1:
            self.first = self._last
            self._second = self._end
        return self._last

    def _line(self) -> bytes:
        """Return the next line, or its first ROW_BYTES. Its beginning may be one read again."""
        line = self._ahead.readline()
        return line if line.endswith(b"\n") else line + self._file.readline(ROW_BYTES - len(line))

    def _next_ahead(self) -> bytes:
        """Return a later line of the row, or nothing if the row would be above ROW_BYTES.

        Nothing, too, if the line is already read again. Then it was in a quoted cell, and the fault
        that ended that cell also ends this one: time stays linear.
        """
        if not self._looked_ahead:
            if self._ahead.tell() < self._ahead.getbuffer().nbytes:
                return b""
            self._ahead = BytesIO()
            self._looked_ahead = True
        room = ROW_BYTES - (self._end - self._start)
        line = self._file.readline(room)
        self._ahead.write(line)
        return line if len(line) < room or line.endswith(b"\n") else b""

    def _skip_line(self, line: bytes) -> None:
        """Skip a line above ROW_BYTES and raise the error of a field over the limit: one row."""
        self.first = line[: 4 * EXCERPT].decode(self._encoding, "backslashreplace")
        self._last = ""
        self.count = 1
        while line and not line.endswith(b"\n"):
            self._end += len(line)
            line = self._line()
        self._end += len(line)
        raise csv.Error("line larger than the limit")

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode(self._encoding)
        except UnicodeDecodeError as error:
            text = line.decode(self._encoding, "backslashreplace")
            if self.bad_byte is None:
                self.bad_byte = self._end + error.start
        return text if self._end else text.removeprefix(BOM)


def _over_long(error: csv.Error) -> bool:
    """Return whether a field was larger than the limit."""
    return "limit" in str(error)


def _json_list(cell: str) -> object:
    """Return the JSON array of sentences in a cell; any other cell unchanged."""
    try:
        return json.loads(cell) if cell else None
    except (ValueError, RecursionError):
        return cell


def _quoted_after(line: str, quoted: bool, delimiter: str) -> bool | None:
    """Return whether a quote is open at the end of a line; None if text follows a closing quote."""
    at = 0
    while True:
        if quoted:
            close = line.find('"', at)
            if close < 0:
                return True
            follows = line[close + 1 : close + 2]
            if follows == '"':  # a doubled quote is a literal quote
                at = close + 2
                continue
            if follows not in ("", delimiter, "\r", "\n"):
                return None
            quoted, at = False, close + 1
        elif line.startswith('"', at):
            quoted, at = True, at + 1
            continue
        if (cell_end := line.find(delimiter, at)) < 0:
            return False
        at = cell_end + 1
