"""CSV and TSV under a header; a broken row costs only itself."""

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
    """Rows under a header, separated as `separator` says; quotes as spreadsheets write them."""
    name = Path(config.source).name
    tabs = source_format(config.source) == "tsv"
    csv.field_size_limit(max(config.max_characters, 1 << 17))  # where an open quote is given up
    with open_bytes(config) as file:
        text = _Text(file, config.encoding)
        found = iter(text)
        first = next((line for line in found if line.strip()), "")
        reader = csv.reader(chain([first], found), delimiter="\t" if tabs else separator(first))
        header = next(reader, [])
        if (offset := text.bad_byte()) is not None:
            raise UnreadableSourceError(
                f"The header of {name} is not {config.encoding} at byte {offset}: name another "
                "--encoding."
            )
        if len(set(header)) < len(header):
            raise MissingColumnError(f"Each column of {name} has its own name: found {header}.")
        try:
            columns = used_columns(config, header)
        except MissingColumnError as error:
            if len(header) > 1:
                raise
            raise MissingColumnError(
                f"{error.args[0]} The first line of {name} is one column: commas, semicolons or "
                "tabs part columns."
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
    """The first of these that the header has outside quotes: comma, semicolon, tab.

    Spreadsheets write semicolons where a comma is the decimal mark, databases tabs.
    """
    unquoted = re.sub(r'"[^"]*("|$)', "", header)
    return next((mark for mark in ",;\t" if mark in unquoted), ",")


def _cells(reader: Any, text: "_Text") -> Iterator[list[str] | csv.Error]:
    """Cells of each row, or why the csv module gives the row up; it goes on with the next line.

    No cell at all where a stray quote drew the rows behind it into one: these are read again.
    """
    while True:
        text.begin_row()
        try:
            if cells := next(reader):
                if text.glued(reader.dialect.delimiter):
                    text.give_back()
                    cells = []  # as wide as no header
                yield cells
        except StopIteration:
            return
        except csv.Error as error:
            if _over_long(error):
                text.skip_row(reader.dialect.delimiter)
            yield error


def _over_long(error: csv.Error) -> bool:
    """Whether a field was larger than the limit."""
    return "limit" in str(error)


def _json_list(cell: str) -> object:
    """A CSV cell that holds a JSON array of sentences; anything else stays as it is."""
    try:
        return json.loads(cell) if cell else None
    except (ValueError, RecursionError):
        return cell


def _quoted_after(line: str, quoted: bool, delimiter: str) -> bool | None:
    """Whether a quote is open at the end of a line; none if text follows one that should close."""
    at = 0
    while True:
        if quoted:
            close = line.find('"', at)
            if close < 0:
                return True
            follows = line[close + 1 : close + 2]
            if follows == '"':  # two are one that is meant
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
    """Lines of text out of bytes; remembers those of a row, and where a byte was undecodable."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        self._lines = lines(file)
        self._encoding = encoding
        self._offset = 0
        self._bad: int | None = None
        self._read = 0
        self._row: list[str] = []
        self._raw: list[bytes] = []
        self.row_line = 1
        """Where the row begins, counted from 1."""

    def begin_row(self) -> None:
        """What is read from now on is of another row."""
        self._row, self._raw = [], []
        self.row_line = self._read + 1

    def row_start(self) -> str:
        """How the row begins, as it stands in the file."""
        return self._row[0] if self._row else ""

    def glued(self, delimiter: str) -> bool:
        """Whether the row has several lines, and text behind a quote that closes a cell.

        Such a quote opens another cell: one that stood before was stray, or was never closed.
        """
        quoted: bool | None = False
        for line in self._row if len(self._row) > 1 else ():
            quoted = _quoted_after(line, quoted, delimiter)
            if quoted is None:
                return True
        return False

    def give_back(self) -> None:
        """The lines behind the row's first are of rows to come."""
        again = self._raw[1:]
        self._lines = chain(again, self._lines)
        self._offset -= sum(map(len, again))
        self._read -= len(again)
        if self._bad is not None and self._bad >= self._offset:
            self._bad = None

    def skip_row(self, delimiter: str) -> None:
        """Go to the end of a row with a field over the limit.

        A quoted field may have lines that look like rows. Where no quote closes it, the open one
        is the fault: nothing is skipped, and what follows is read.
        """
        quoted: bool | None = False
        ahead: list[bytes] = []
        size = 0
        line = ""
        for line in self._row:
            quoted = bool(_quoted_after(line, bool(quoted), delimiter))
        while quoted or not line.endswith("\n"):
            found = next(self._lines, b"") if size < ROW_BYTES else b""
            ahead.append(found)
            size += len(found)
            line = found.decode(self._encoding, "surrogateescape")
            quoted = _quoted_after(line, bool(quoted), delimiter) if found else None
            if quoted is None:
                self._lines = chain(filter(None, ahead), self._lines)
                return
        self._offset += size
        self._read += len(ahead)

    def bad_byte(self) -> int | None:
        """Offset of the first bad byte since the last call."""
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
