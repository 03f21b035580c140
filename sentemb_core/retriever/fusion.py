"""Scores of several parts as one: each is standardised over a query's candidates and weighted."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float64

Scores = Float[np.ndarray, "queries candidates"]
Among = Bool[np.ndarray, "queries candidates"]


def standardised(
    scores: Scores, among: Among | None = None
) -> Float64[np.ndarray, "queries candidates"]:
    """Return z: (score - mean) / deviation of each row, over the candidates in `among`.

    Equal scores become 0: such a part says nothing about a query.
    """
    scores = np.asarray(scores, np.float64)
    kept = np.ones(scores.shape, bool) if among is None else among
    counts = np.maximum(kept.sum(axis=1, keepdims=True), 1)
    centred = scores - np.where(kept, scores, 0).sum(axis=1, keepdims=True) / counts
    deviation = np.sqrt(np.where(kept, centred**2, 0).sum(axis=1, keepdims=True) / counts)
    flat = deviation <= 1e-9 * np.maximum(1, np.abs(scores).max(axis=1, keepdims=True, initial=0))
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation))


def fused(
    parts: Sequence[tuple[float, Scores]], among: Among | None = None
) -> Float64[np.ndarray, "queries candidates"]:
    """Return the weighted sum of standardised scores."""
    weight, first = parts[0]
    total = weight * standardised(first, among)
    for weight, scores in parts[1:]:
        total += weight * standardised(scores, among)
    return total


def first_places(scores: Scores, count: int) -> Among:
    """Return which candidates are among the first `count` of each query; ties are all kept."""
    count = min(count, scores.shape[1])
    return scores >= np.partition(scores, -count, axis=1)[:, -count, None]


def ranked_again(
    scores: Scores, again: Scores, among: Among
) -> Float64[np.ndarray, "queries candidates"]:
    """Return `again` for the candidates in `among`, and below them the others by `scores`."""
    least = np.where(among, again, np.inf).min(axis=1, keepdims=True)
    best_other = np.where(among, -np.inf, scores).max(axis=1, keepdims=True)
    return np.where(among, again, scores - np.maximum(best_other - least + 1, 0))
