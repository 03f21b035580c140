"""Reader of CSV and TSV files with a header. A broken row costs no other row."""

import csv
import json
import re
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Row, used_columns
from sentemb_core.corpus.source import BOM, ROW_BYTES, lines, open_bytes, source_format
from sentemb_core.errors import MissingColumnError, UnreadableSourceError


def csv_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows below the header. Quotes are as spreadsheets write them."""
    name = Path(config.source).name
    tabs = source_format(config.source) == "tsv"
    csv.field_size_limit(max(config.max_characters, 1 << 17))  # the end of an unclosed quote
    with open_bytes(config) as file:
        text = _Text(file, config.encoding)
        text_lines = iter(text)
        first = next((line for line in text_lines if line.strip()), "")
        delimiter = "\t" if tabs else separator(first)
        reader = csv.reader(chain([first], text_lines), delimiter=delimiter)
        header = next(reader, [])
        if (offset := text.bad_byte()) is not None:
            raise UnreadableSourceError(
                f"The header of {name} is not {config.encoding} at byte {offset}: name another "
                "--encoding."
            )
        if len(set(header)) < len(header):
            raise MissingColumnError(f"Column names of {name} must be unique: found {header}.")
        try:
            columns = used_columns(config, header)
        except MissingColumnError as error:
            if len(header) > 1:
                raise
            raise MissingColumnError(
                f"{error.args[0]} The first line of {name} is one column: separate columns with "
                "commas, semicolons or tabs."
            ) from error
        for number, cells in enumerate(_cells(reader, text)):
            where = f"{name}, line {text.row_line}"
            if (offset := text.bad_byte()) is not None:
                yield BadRow(f"{name}, byte {offset}", number, "encoding", text.row_start())
            elif isinstance(cells, csv.Error):
                if _over_long(cells):
                    yield BadRow(where, number, "over-long", text.row_start())
                else:  # a bare carriage return
                    yield BadRow(where, number, "broken-row", str(cells))
            elif len(cells) != len(header):
                yield BadRow(where, number, "broken-row", text.row_start())
            else:
                record = dict[str, Any](zip(header, cells, strict=True))
                if columns.sentences:
                    record[columns.sentences] = _json_list(record[columns.sentences])
                yield columns.row(where, number, record)


def separator(header: str) -> str:
    """Return the first mark outside quotes in the header, of comma, semicolon and tab.

    Spreadsheets write semicolons where a comma is the decimal mark; databases write tabs.
    """
    unquoted = re.sub(r'"[^"]*("|$)', "", header)
    return next((mark for mark in ",;\t" if mark in unquoted), ",")


def _cells(reader: Any, text: "_Text") -> Iterator[list[str] | csv.Error]:
    """Yield the cells of each row, or the csv error of a row. Reading continues in the next line.

    The list is empty if a stray quote joined several rows; these rows are then read again.
    """
    while True:
        text.begin_row()
        try:
            if cells := next(reader):
                if text.has_stray_quote(reader.dialect.delimiter):
                    text.push_back()
                    cells = []  # never as many as the header has
                yield cells
        except StopIteration:
            return
        except csv.Error as error:
            if _over_long(error):
                text.skip_row(reader.dialect.delimiter)
            yield error


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


class _Text:
    """Decodes lines; remembers the lines of a row and the first undecodable byte."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        self._lines = lines(file)
        self._encoding = encoding
        self._offset = 0
        self._bad: int | None = None
        self._read = 0
        self._row: list[str] = []
        self._raw: list[bytes] = []
        self.row_line = 1
        """First line of the row, counted from 1."""

    def begin_row(self) -> None:
        """Begin a new row with the next line."""
        self._row, self._raw = [], []
        self.row_line = self._read + 1

    def row_start(self) -> str:
        """Return the first line of the row as the file has it."""
        return self._row[0] if self._row else ""

    def has_stray_quote(self, delimiter: str) -> bool:
        """Return whether the row has several lines, and text after a quote that closes a cell.

        Such a quote opens another cell: an earlier quote was stray, or was never closed.
        """
        quoted: bool | None = False
        for line in self._row if len(self._row) > 1 else ():
            quoted = _quoted_after(line, quoted, delimiter)
            if quoted is None:
                return True
        return False

    def push_back(self) -> None:
        """Read the lines after the row's first line again, as other rows."""
        again = self._raw[1:]
        self._lines = chain(again, self._lines)
        self._offset -= sum(map(len, again))
        self._read -= len(again)
        if self._bad is not None and self._bad >= self._offset:
            self._bad = None

    def skip_row(self, delimiter: str) -> None:
        """Skip to the end of a row with a field over the limit.

        Lines of a quoted field may look like rows. If no quote closes the field, its opening quote
        is the fault: no line is skipped.
        """
        quoted: bool | None = False
        ahead: list[bytes] = []
        size = 0
        line = ""
        for line in self._row:
            quoted = bool(_quoted_after(line, bool(quoted), delimiter))
        while quoted or not line.endswith("\n"):
            raw = next(self._lines, b"") if size < ROW_BYTES else b""
            ahead.append(raw)
            size += len(raw)
            line = raw.decode(self._encoding, "surrogateescape")
            quoted = _quoted_after(line, bool(quoted), delimiter) if raw else None
            if quoted is None:
                self._lines = chain(filter(None, ahead), self._lines)
                return
        self._offset += size
        self._read += len(ahead)

    def bad_byte(self) -> int | None:
        """Return the offset of the first undecodable byte since the last call."""
        bad, self._bad = self._bad, None
        return bad

    def __iter__(self) -> Iterator[str]:
        while line := next(self._lines, b""):
            try:
                text = line.decode(self._encoding)
            except UnicodeDecodeError as error:
                self._bad = self._offset + error.start if self._bad is None else self._bad
                text = line.decode(self._encoding, "surrogateescape")
            text = text.removeprefix(BOM) if self._offset == 0 else text
            self._offset += len(line)
            self._read += 1
            self._row.append(text)
            self._raw.append(line)
            yield text
