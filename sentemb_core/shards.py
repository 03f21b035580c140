"""Tables in shards: memory-mapped Arrow files of one record batch each, and their row ranges."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
from jaxtyping import Float, Int64

from sentemb_core import schemas


def write_arrow(path: Path, batch: Any) -> None:
    """Write a file of one record batch."""
    with ipc.new_file(path, batch.schema) as file:
        file.write_batch(batch)


def read_arrow(path: Path) -> Any:
    """Return the only record batch of a file, memory-mapped. The file itself is closed."""
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).get_batch(0)


def save_vectors(path: Path, vectors: Float[np.ndarray, "n dim"]) -> None:
    """Write one vector per row (`schemas.embeddings`)."""
    dim = vectors.shape[1]
    kind: Any = pa.from_numpy_dtype(vectors.dtype)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), kind), dim)
    write_arrow(path, pa.record_batch([column], schema=schemas.embeddings(dim, kind)))


def mapped_vectors(path: Path) -> Float[np.ndarray, "n dim"]:
    """The vectors that `save_vectors` wrote, as a view whose buffers keep the file mapped."""
    column: Any = read_arrow(path).column("embedding")
    return column.flatten().to_numpy().reshape(-1, column.type.list_size)


def by_shard(
    wanted: Int64[np.ndarray, " n"], ends: Int64[np.ndarray, " shards"], what: str
) -> Iterator[tuple[int, Int64[np.ndarray, " places"]]]:
    """Yield each shard that holds wanted rows, and the positions of these rows in `wanted`.

    Args:
        wanted: Indices of rows, in any order.
        ends: End of each shard's rows.
        what: Name of a row, for the error.

    Raises:
        IndexError: a row outside all shards.
    """
    count = int(ends[-1]) if len(ends) else 0
    if len(wanted) and (wanted.min() < 0 or wanted.max() >= count):
        raise IndexError(
            f"A {what} index lies in 0..{count - 1}; found {wanted.min()}..{wanted.max()}"
        )
    shard_of = np.searchsorted(ends, wanted, side="right")
    for shard in np.unique(shard_of).tolist():
        yield shard, np.flatnonzero(shard_of == shard)
