"""Parquet files written a batch at a time in few, large row groups."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS, GROUP_BYTES = 65_536, 16 << 20  # a row group is closed at either
Batch = Any  # pa.RecordBatch, which carries no types


class RowGroups:
    """Collects batches up to a row group.

    Parquet keeps some kilobytes for every row group until the file is closed, so many small ones
    would let memory grow with the corpus.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._file = pq.ParquetWriter(path, schema, compression="zstd")
        self._batches: list[Batch] = []
        self._rows = self._bytes = 0

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        pa.default_memory_pool().release_unused()  # before a row group exists twice
        if self._batches:
            self._file.write_table(pa.Table.from_batches(self._batches, self._schema))
        self._batches = []
        self._rows = self._bytes = 0
