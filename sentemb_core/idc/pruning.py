"""Eq. 3 of mutual: which edges of the similarity graph survive."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.errors import UsageError
from sentemb_core.idc.similarity import Neighbours


@dataclass(frozen=True)
class Edges:
    """Undirected edges between canonical sentences: i < j, each once, sorted by (i, j)."""

    i: Int64[np.ndarray, " edges"]
    j: Int64[np.ndarray, " edges"]
    weight: Float32[np.ndarray, " edges"]


def prune_to_top_k(neighbours: Neighbours, top_k: int, *, mutual: bool = False) -> Edges:
    """Keep an edge if either end ranks the other among its `top_k` nearest (mutual, Eq. 3).

    With `mutual` both ends must rank each other, which permits sentences without any edge: an
    extension of the paper for `top_k` >= 2, where the union rule percolates to whole documents.

    Raises UsageError if the graph stores fewer than `top_k` neighbours.
    """
    count, degree = neighbours.index.shape
    if not 1 <= top_k <= degree:
        raise UsageError(
            f"top_k must lie between 1 and the graph's degree, found top_k {top_k} and degree "
            f"{degree}: lower top_k, or build the graph again with graph_degree = {top_k}."
        )
    own = np.arange(count)[:, None]
    partner = neighbours.index[:, :top_k] - neighbours.first
    ranked = neighbours.index[:, :top_k] >= 0
    i = np.minimum(own, partner)[ranked]
    j = np.maximum(own, partner)[ranked]
    _, at, ends = np.unique(i * count + j, return_index=True, return_counts=True)
    kept = at[ends == 2] if mutual else at
    weight = neighbours.weight[:, :top_k][ranked]
    return Edges(i[kept] + neighbours.first, j[kept] + neighbours.first, weight[kept])
