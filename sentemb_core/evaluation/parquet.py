"""Parquet files from users: read, or refused with the expected form."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.encoder.safety import require_ordinary
from sentemb_core.errors import BadDataError, MissingColumnError, UnreadableSourceError
from sentemb_core.formats import counted

EXAMPLES = 3
"""Bad rows that a message lists."""


def table_of(path: Path, what: str, wanted: Sequence[str] = ()) -> Any:
    """Return the table of a file; `what` names the data in error messages.

    Raises:
        UnreadableSourceError: E103, the file does not exist or is no Parquet.
        MissingColumnError: E104, it lacks a `wanted` column.
    """
    try:
        require_ordinary(path)
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadableSourceError(
            f"{what} is a Parquet file; {path} cannot be read: {error}. Check the path, or write "
            "the file again as Parquet."
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
            f"{what} needs the columns {', '.join(wanted)}; {path} lacks {', '.join(missing)}. It "
            f"has {', '.join(table.column_names)}. Rename or add the missing columns."
        )


def require_texts(
    table: Any, path: Path, names: Sequence[str], rows: Sequence[int] | None = None
) -> None:
    """Refuse a table with a cell that is no text in these columns, in all rows or in some.

    Raises:
        BadDataError: E100, with the first of the rows.
    """
    for name in names:
        cells = table[name].to_pylist()
        checked = range(len(cells)) if rows is None else rows
        bad = [row for row in checked if not isinstance(cells[row], str)]
        refuse_rows(path, name, "text", bad)


def refuse_rows(path: Path, name: str, what: str, bad: Sequence[int]) -> None:
    """Refuse a file with bad rows in a column.

    Raises:
        BadDataError: E100.
    """
    if bad:
        raise BadDataError(
            f"Column {name} needs {what} in every row; {counted(len(bad), 'row')} of {path} differ "
            f"(first: row {', '.join(map(str, bad[:EXAMPLES]))}, counted from 0). Repair them, or "
            "leave them out."
        )
