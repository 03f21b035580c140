"""mutual, appendix D: eight titles of a browsing session, and how an encoder clusters them."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float64

from sentemb_core.annotation.pruning import clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.task_result import TaskResult

TITLES = (
    "Official LEGO® Shop US",
    "LEGO® DUPLO® World People Set",
    "Spencer Greece Gray Accent Chair",
    "Venus Navy Accent Chair — Bobs.com",
    "Calvin Onyx Black Bob-O-Pedic Queen Sleeper Sofa",
    "Capri Denim Bob-O-Pedic Sleeper Sofa",
    "Youth Vilano Balance Bike",
    "Strider 12 Sport Balance Bike",
)
"""As printed in appendix D."""

LAST = (0, 0, 1, 1, 2, 2, 3, 3)
"""The clusters of the paper's second round; in the first, chairs and sofas are one cluster."""

PAIRS = tuple(combinations(range(len(TITLES)), 2))


def labels_by(encoder: Encoder) -> list[int]:
    """Return the cluster of each title, with one neighbour kept (Eq. 3)."""
    vectors = embed_texts(encoder, list(TITLES), role="sentence")
    offsets = np.array([0, len(TITLES)])
    return clusters(prune_to_top_k(neighbours(vectors, offsets, 1), 1), offsets).tolist()


def case_result(labels: Sequence[int]) -> TaskResult:
    """Return the Rand index to the paper's last clusters; a unit is a pair of titles."""
    right = (together(labels) == together(LAST)).astype(np.float64)
    return TaskResult("appendix D", "Rand index", {"Rand index": float(right.mean())}, right)


def together(labels: Sequence[int]) -> Float64[np.ndarray, "pairs 1"]:
    """Return 1 for each pair of titles in one cluster, else 0."""
    return np.array([[float(labels[i] == labels[j])] for i, j in PAIRS])


def clusters_in(result: TaskResult) -> list[list[int]]:
    """Return the clusters behind a result, with titles numbered from 1."""
    joined = result.units == together(LAST)
    with_first = dict(zip(PAIRS, joined[:, 0].tolist(), strict=True))
    firsts = [next((i for i in range(j) if with_first[i, j]), j) for j in range(len(TITLES))]
    return [
        [j + 1 for j in range(len(TITLES)) if firsts[j] == first] for first in sorted(set(firsts))
    ]
