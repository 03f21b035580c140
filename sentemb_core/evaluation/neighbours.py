"""What nearest neighbours tell of vectors without labels: hubs, duplicates, positives found.

All functions take directions (rows of length 1) and hold all pairwise cosines: they are made for
samples of a few thousand.
"""

import numpy as np
from jaxtyping import Float32, Int64
from scipy.stats import skew

from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant

NEIGHBOURS = 10
"""k of the k-occurrence, as in Radovanović et al. (2010)."""

SAME = 0.99
"""Cosine from which two different texts are one to an encoder. 0.01 is what bfloat16 may lose."""


def hubness(unit: Float32[np.ndarray, "n dim"], k: int = NEIGHBOURS) -> float:
    """Skewness of the k-occurrence: how often a vector is among the k nearest of another.

    0 where all are equally often; a few vectors that are near to everything make it large
    (Radovanović et al. 2010, section 2.2). Among equal cosines the lower index is the nearer.
    """
    counts = np.bincount(nearest(unit, min(k, len(unit) - 1)).ravel(), minlength=len(unit))
    return float(skew(counts)) if counts.std() else 0.0


def duplicate_rate(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Share of vectors, of different texts, that are one with another to the encoder (`SAME`)."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    return float((cosines.max(axis=1) >= SAME).mean())


def positives_found(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"], k: int
) -> float:
    """Share of the first sides that have their second side among the k nearest of all of them."""
    places = np.arange(len(first))
    asked = Relevant(places, places, np.arange(len(first) + 1))
    return float((ranks_of_relevant(first, second, asked, places).best <= k).mean())


def nearest(unit: Float32[np.ndarray, "n dim"], k: int) -> Int64[np.ndarray, "n k"]:
    """Places of each row's k nearest others."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k].astype(np.int64)
