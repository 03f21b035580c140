"""Parquet files that a person brings: read, or refused with what they should be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.errors import BadDataError, MissingColumnError, UnreadableSourceError
from sentemb_core.formats import counted

EXAMPLES = 3
"""Bad rows that a message names."""


def table_of(path: Path, what: str, wanted: Sequence[str] = ()) -> Any:
    """The table of a file; `what` begins the message about a file that is none.

    Raises:
        UnreadableSourceError: E103, the file is not there or not Parquet.
        MissingColumnError: E104, it lacks a `wanted` column.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadableSourceError(
            f"{what} is a Parquet file; {path} cannot be read as one: {error}"
        ) from error
    require_columns(table, path, what, wanted)
    return table


def require_columns(table: Any, path: Path, what: str, wanted: Sequence[str]) -> None:
    """Refuse the table of a file that lacks one of these columns.

    Raises:
        MissingColumnError: E104.
    """
    if missing := [name for name in wanted if name not in table.column_names]:
        raise MissingColumnError(
            f"{what} has the columns {', '.join(wanted)}; {path} lacks {', '.join(missing)} and "
            f"has {', '.join(table.column_names)}."
        )


def require_texts(
    table: Any, path: Path, names: Sequence[str], rows: Sequence[int] | None = None
) -> None:
    """Refuse a table of which a cell in these columns is no text, in any row or in one of some.

    Raises:
        BadDataError: E100, with the first of the rows.
    """
    for name in names:
        cells = table[name].to_pylist()
        asked = range(len(cells)) if rows is None else rows
        bad = [row for row in asked if not isinstance(cells[row], str)]
        refuse_rows(path, name, "text", bad)


def refuse_rows(path: Path, name: str, what: str, bad: Sequence[int]) -> None:
    """Refuse a file if there are rows in which a column does not hold what it should.

    Raises:
        BadDataError: E100.
    """
    if bad:
        raise BadDataError(
            f"Column {name} holds {what} in every row; it does not in {counted(len(bad), 'row')} "
            f"of {path} (first: row {', '.join(map(str, bad[:EXAMPLES]))}, counted from 0): repair "
            "them, or leave them out."
        )
