"""Parquet files of a few rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write(path: Path, **columns: list[object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path
