"""Tables in shards: memory-mapped Arrow files of one record batch each, and their row ranges."""

from collections.abc import Iterator, Sequence
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
    wanted: Sequence[int] | Int64[np.ndarray, " n"],
    starts: Int64[np.ndarray, " bounds"],
    what: str,
) -> Iterator[tuple[int, Int64[np.ndarray, " places"], Int64[np.ndarray, " places"]]]:
    """Yield each shard with wanted rows, their positions in `wanted`, and their rows in the shard.

    Args:
        wanted: Indices of rows, in any order.
        starts: First row of each shard and, last, the number of rows.
        what: Name of a row, for the error.

    Raises:
        IndexError: a row outside all shards.
    """
    rows = np.asarray(wanted, dtype=np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= starts[-1]):
        raise IndexError(
            f"A {what} index lies in 0..{starts[-1] - 1}; found {rows.min()}..{rows.max()}"
        )
    shard_of = np.searchsorted(starts, rows, side="right") - 1
    for shard in np.unique(shard_of).tolist():
        places = np.flatnonzero(shard_of == shard)
        yield shard, places, rows[places] - starts[shard]
