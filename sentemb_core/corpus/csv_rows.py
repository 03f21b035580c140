"""Reader of CSV and TSV files with a header. A broken row costs no other row."""

import csv
import json
import re
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, NamedTuple

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Columns, Row, used_columns
from sentemb_core.corpus.source import BOM, ROW_BYTES, lines, open_bytes, source_format
from sentemb_core.errors import MissingColumnError, UnreadableSourceError


class _Line(NamedTuple):
    """A line of the file, counted from 1, and the offset of its first undecodable byte."""

    number: int
    text: str
    bad_byte: int | None


class _CsvRow(NamedTuple):
    """The first line of a row, its first undecodable byte, and its cells or what is wrong."""

    first: _Line
    bad_byte: int | None
    cells: list[str] | csv.Error


def csv_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows below the header. Quotes are as spreadsheets write them."""
    name = Path(config.source).name
    csv.field_size_limit(max(config.max_characters, 1 << 17))
    with open_bytes(config) as file:
        rows = _rows(_decoded(file, config.encoding), config)
        header, columns = _header(next(rows, None), config)
        for number, (first, bad_byte, cells) in enumerate(rows):
            where = f"{name}, line {first.number}"
            if isinstance(cells, csv.Error) and _over_long(cells):
                yield BadRow(where, number, "over-long", first.text)
            elif bad_byte is not None:
                yield BadRow(f"{name}, byte {bad_byte}", number, "encoding", first.text)
            elif isinstance(cells, csv.Error) or len(cells) != len(header):
                yield BadRow(where, number, "broken-row", first.text)
            else:
                record = dict[str, Any](zip(header, cells, strict=True))
                if columns.sentences:
                    record[columns.sentences] = _json_list(record[columns.sentences])
                yield columns.row(where, number, record)


def _header(row: _CsvRow | None, config: CorpusConfig) -> tuple[list[str], Columns]:
    """Return the names of all columns, and those in use.

    Raises:
        UnreadableSourceError: a byte is not of the encoding.
        MissingColumnError: names repeat, or no name is that of a used column.
    """
    name = Path(config.source).name
    if row and row.bad_byte is not None:
        raise UnreadableSourceError(
            f"The header of {name} is not {config.encoding} at byte {row.bad_byte}: name another "
            "--encoding."
        )
    header = row.cells if row else []
    if isinstance(header, csv.Error):
        raise header
    if len(set(header)) < len(header):
        raise MissingColumnError(
            f"Column names of {name} must be unique: found {header}. Rename the repeated columns."
        )
    try:
        return header, used_columns(config, header)
    except MissingColumnError as error:
        if len(header) > 1:
            raise
        raise MissingColumnError(
            f"{error.args[0]} The first line of {name} is one column: separate columns with "
            "commas, semicolons or tabs."
        ) from error


def separator(header: str) -> str:
    """Return the first mark outside quotes in the header, of comma, semicolon and tab.

    Spreadsheets write semicolons where a comma is the decimal mark; databases write tabs.
    """
    unquoted = re.sub(r'"[^"]*("|$)', "", header)
    return next((mark for mark in ",;\t" if mark in unquoted), ",")


def _decoded(file: BufferedReader, encoding: str) -> Iterator[_Line]:
    offset = 0
    for number, line in enumerate(lines(file), 1):
        bad_byte = None
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            bad_byte = offset + error.start
            text = line.decode(encoding, "surrogateescape")
        yield _Line(number, text if offset else text.removeprefix(BOM), bad_byte)
        offset += len(line)


def _rows(source: Iterator[_Line], config: CorpusConfig) -> Iterator[_CsvRow]:
    """Yield the header and all rows. The lines after the first line of a broken row are read again.

    Lines of a quoted cell may look like rows. If text follows a quote that closes a cell in a later
    line, or if no quote closes it, the opening quote is the fault.
    """
    ahead = deque(islice(dropwhile(lambda line: not line.text.strip(), source), 1))
    if not ahead:
        return
    tabs = source_format(config.source) == "tsv"
    delimiter = "\t" if tabs else separator(ahead[0].text)

    def following() -> _Line | None:
        return ahead.popleft() if ahead else next(source, None)

    while first := following():
        row, size = [first], len(first.text)
        quoted = _quoted_after(first.text, False, delimiter)
        while quoted and size < ROW_BYTES and (line := following()):
            row.append(line)
            size += len(line.text)
            quoted = _quoted_after(line.text, True, delimiter)
        try:
            cells = _cells([line.text for line in row], quoted, delimiter)
        except csv.Error as error:
            cells = error
            if not _over_long(error):
                ahead.extendleft(reversed(row[1:]))
                row = [first]
        if cells:
            bad_bytes = (line.bad_byte for line in row if line.bad_byte is not None)
            yield _CsvRow(first, next(bad_bytes, None), cells)


def _cells(row: list[str], quoted: bool | None, delimiter: str) -> list[str]:
    """Return the cells of a row of lines, no cell for an empty line; `quoted` is its last state."""
    if quoted or (quoted is None and len(row) > 1):
        raise csv.Error("a quote is stray, or is never closed")
    texts = iter([*row, ""])
    cells = next(csv.reader(texts, delimiter=delimiter))
    if next(texts, None) != "":
        raise csv.Error("the row ends in another line")
    return cells


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
