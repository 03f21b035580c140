"""The kinds of file an annotation is kept in: vectors in Arrow, integers in Parquet."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from sentemb_core import schemas
from sentemb_core.shards import read_arrow, write_arrow


def write_vectors(path: Path, vectors: Float[np.ndarray, "n dim"]) -> None:
    """A vector a row (`schemas.embeddings`)."""
    dim = vectors.shape[1]
    kind: Any = pa.from_numpy_dtype(vectors.dtype)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), kind), dim)
    write_arrow(path, pa.record_batch([column], schema=schemas.embeddings(dim, kind)))


def mapped_vectors(path: Path) -> Float[np.ndarray, "n dim"]:
    """A view of what `write_vectors` wrote; its buffers keep the map alive."""
    column: Any = read_arrow(path).column("embedding")
    return column.flatten().to_numpy().reshape(-1, column.type.list_size)


def delta_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """Columns of slowly changing integers: differences in few bits, no general compression."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        column_encoding=dict.fromkeys(schema.names, "DELTA_BINARY_PACKED"),
    )
