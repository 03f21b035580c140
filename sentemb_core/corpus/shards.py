"""Rows that are kept in shards: which of those asked for lie in which."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64


def by_shard(
    wanted: Int64[np.ndarray, " n"], ends: Int64[np.ndarray, " shards"], what: str
) -> Iterator[tuple[int, Int64[np.ndarray, " places"]]]:
    """For each shard that holds wanted rows, their places in `wanted`.

    Args:
        wanted: Indices of rows, in any order.
        ends: Where the rows of each shard end.
        what: Name of a row, for the error.

    Raises:
        IndexError: a row that is in no shard.
    """
    count = int(ends[-1]) if len(ends) else 0
    if len(wanted) and (wanted.min() < 0 or wanted.max() >= count):
        raise IndexError(
            f"A {what} index lies in 0..{count - 1}; found {wanted.min()}..{wanted.max()}"
        )
    shard_of = np.searchsorted(ends, wanted, side="right")
    for shard in np.unique(shard_of).tolist():
        yield shard, np.flatnonzero(shard_of == shard)
