"""Exact search by inner product, block by block: no index to build, no approximation."""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from sentemb_core.errors import BadEmbeddingError

BLOCK = 16_384  # vectors scored at once: 66 MB of scores for 1,000 queries


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
        row, column = np.divmod(np.flatnonzero(_may_enter(fresh, scores, k)), fresh.shape[1])
        kept = np.repeat(np.arange(len(queries)), best.shape[1])
        best, scores = _best(
            np.concatenate([kept, row]),
            np.concatenate([best.ravel(), column + start]),
            np.concatenate([scores.ravel(), fresh[row, column]]),
            min(k, best.shape[1] + fresh.shape[1]),
            len(queries),
        )
    return best, scores


def _may_enter(
    fresh: Float32[np.ndarray, "queries n"], scores: Float32[np.ndarray, "queries kept"], k: int
) -> Bool[np.ndarray, "queries n"]:
    """Return which fresh scores may be among the k best: few, once there are k."""
    if scores.shape[1] < k:
        last = -min(k, fresh.shape[1])
        return fresh >= np.partition(fresh, last, axis=1)[:, last, None]
    return fresh > scores[:, -1:]  # an equal score of a higher index comes later


def _best(
    row: Int64[np.ndarray, " n"],
    index: Int64[np.ndarray, " n"],
    score: Float32[np.ndarray, " n"],
    k: int,
    queries: int,
) -> tuple[Int64[np.ndarray, "queries k"], Float32[np.ndarray, "queries k"]]:
    """Return the k best of each row by (score descending, index ascending); each has k or more."""
    order = np.lexsort((index, -score, row))
    first = np.searchsorted(row[order], np.arange(queries))
    take = order[first[:, None] + np.arange(k)]
    return index[take], score[take]
