"""CSV and TSV under a header; a broken row costs only itself."""

import csv
import json
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any

from sentemb_core.configs import CorpusConfig
from sentemb_core.corpus.columns import Row, used_columns
from sentemb_core.corpus.files import BOM, lines, open_bytes
from sentemb_core.corpus.quarantine import BadRow
from sentemb_core.corpus.source import source_format
from sentemb_core.errors import MissingColumnError, UnreadableSourceError


def csv_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Rows under a header, separated as `separator` says; quotes as spreadsheets write them."""
    name = Path(config.source).name
    tabs = source_format(config.source) == "tsv"
    csv.field_size_limit(max(config.max_characters, 1 << 17))  # where an open quote is given up
    with open_bytes(config) as file:
        text = _Text(file, config.encoding)
        found = iter(text)
        first = next(found, "")
        reader = csv.reader(chain([first], found), delimiter="\t" if tabs else separator(first))
        header = next(reader, [])
        if (offset := text.bad_byte()) is not None:
            raise UnreadableSourceError(
                f"The header of {name} is not {config.encoding} at byte {offset}: name another "
                "--encoding."
            )
        if len(set(header)) < len(header):
            raise MissingColumnError(f"Each column of {name} has its own name: found {header}.")
        columns = used_columns(config, header)
        for number, cells in enumerate(_cells(reader)):
            where = f"{name}, line {reader.line_num}"
            if (offset := text.bad_byte()) is not None:
                yield BadRow(f"{name}, byte {offset}", number, "encoding", cells)
            elif isinstance(cells, csv.Error):
                over_long = "limit" in str(cells)  # of a field; else a bare carriage return
                yield BadRow(where, number, "over-long" if over_long else "broken-row", str(cells))
            elif len(cells) != len(header):
                yield BadRow(where, number, "broken-row", cells)
            else:
                record = dict[str, Any](zip(header, cells, strict=True))
                if columns.sentences:
                    record[columns.sentences] = _json_list(record[columns.sentences])
                yield columns.row(where, number, record)


def separator(header: str) -> str:
    """A comma, or the semicolon of spreadsheets where a comma is the decimal mark.

    It is one if the header has semicolons and no comma.
    """
    return ";" if ";" in header and "," not in header else ","


def _cells(reader: Any) -> Iterator[list[str] | csv.Error]:
    """Cells of each row, or why the csv module gives the row up; it goes on with the next line."""
    while True:
        try:
            if cells := next(reader):
                yield cells
        except StopIteration:
            return
        except csv.Error as error:
            yield error


def _json_list(cell: str) -> object:
    """A CSV cell that holds a JSON array of sentences; anything else stays as it is."""
    try:
        return json.loads(cell) if cell else None
    except (ValueError, RecursionError):
        return cell


class _Text:
    """Lines of text out of bytes; remembers where the first undecodable byte lay."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        self._lines = lines(file)
        self._encoding = encoding
        self._offset = 0
        self._bad: int | None = None

    def bad_byte(self) -> int | None:
        """Offset of the first bad byte since the last call."""
        bad, self._bad = self._bad, None
        return bad

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            try:
                text = line.decode(self._encoding)
            except UnicodeDecodeError as error:
                self._bad = self._offset + error.start if self._bad is None else self._bad
                text = line.decode(self._encoding, "surrogateescape")
            yield text.removeprefix(BOM) if self._offset == 0 else text
            self._offset += len(line)
