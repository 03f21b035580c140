"""Parquet files that a person brings: read, or refused with what they should be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.errors import MissingColumnError, UnreadableSourceError


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
