"""The two kinds of file an annotation is kept in: one Arrow batch, or Parquet integers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq


def write_arrow(path: Path, columns: list[Any], schema: Any) -> None:
    with ipc.new_file(path, schema) as file:
        file.write_batch(pa.record_batch(columns, schema=schema))


def read_arrow(path: Path) -> Any:
    """The one record batch of a file, memory-mapped."""
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).get_batch(0)


def delta_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """Columns of slowly changing integers: differences in few bits, no general compression."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        column_encoding=dict.fromkeys(schema.names, "DELTA_BINARY_PACKED"),
    )
