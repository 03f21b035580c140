"""Exact search by inner product, block by block: no index to build, no approximation."""

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.errors import BadEmbeddingError

BLOCK = 8_192  # vectors scored at once: 33 MB of scores for 1,000 queries


def search(
    queries: Float32[np.ndarray, "queries dim"],
    vectors: Float32[np.ndarray, "vectors dim"],
    k: int,
) -> tuple[Int64[np.ndarray, "queries k"], Float32[np.ndarray, "queries k"]]:
    """Return indices and inner products of each query's k best vectors, best first.

    Among equal scores the lower index is first. k is at most the number of vectors.

    Raises:
        BadEmbeddingError: a score that is not finite.
    """
    best = np.empty((len(queries), 0), dtype=np.int64)
    scores = np.empty((len(queries), 0), dtype=np.float32)
    for start in range(0, len(vectors), BLOCK):
        with np.errstate(invalid="ignore", over="ignore"):  # refused below
            fresh = queries @ vectors[start : start + BLOCK].T
        if not np.isfinite(fresh).all():
            raise BadEmbeddingError(
                f"A score must be finite; vectors {start} to {start + fresh.shape[1] - 1} have one "
                "that is not. Encode them again, or leave them out."
            )
        index = np.broadcast_to(np.arange(start, start + fresh.shape[1]), fresh.shape)
        best, scores = _top(
            np.concatenate([best, index], axis=1), np.concatenate([scores, fresh], axis=1), k
        )
    return best, scores


def _top(
    index: Int64[np.ndarray, "queries n"], scores: Float32[np.ndarray, "queries n"], k: int
) -> tuple[Int64[np.ndarray, "queries k"], Float32[np.ndarray, "queries k"]]:
    """Return the k best columns of each row by (score descending, index ascending)."""
    k = min(k, scores.shape[1])
    last_kept = np.partition(scores, -k, axis=1)[:, -k, None]
    row, column = np.nonzero(scores >= last_kept)  # k a row, or more if the last place is tied
    order = np.lexsort((index[row, column], -scores[row, column], row))
    row, column = row[order], column[order]
    first = np.searchsorted(row, np.arange(len(scores)))
    kept = first[:, None] + np.arange(k)
    take = (row[kept], column[kept])
    return index[take], scores[take]
