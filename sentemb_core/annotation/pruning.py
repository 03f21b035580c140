"""Eq. 3 of mutual: which edges of the similarity graph are kept; Algorithm 1: their components."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Float32, Int32, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb_core.annotation.similarity import Neighbours, neighbours
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.errors import UsageError


@dataclass(frozen=True)
class Edges:
    """Undirected edges between canonical sentences: i < j, each once, sorted by (i, j)."""

    i: Int64[np.ndarray, " edges"]
    j: Int64[np.ndarray, " edges"]
    weight: Float32[np.ndarray, " edges"]


def prune_to_top_k(neighbours: Neighbours, top_k: int, *, mutual: bool = False) -> Edges:
    """Keep an edge if either end ranks the other among its `top_k` nearest (mutual, Eq. 3).

    With `mutual`, both ends must rank each other, and some sentences have no edge. This extends the
    paper for `top_k` >= 2, where the union rule joins whole documents.

    Raises:
        UsageError: The graph stores fewer than `top_k` neighbours.
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


def clusters(
    edges: Edges, offsets: Int64[np.ndarray, " bounds"]
) -> Int32[np.ndarray, " sentences"]:
    """Label every sentence with the connected component it is in (mutual, Algorithm 1).

    Labels count from 0 in each document, by first appearance. One call computes the components of
    all documents: a call a document costs more than the components. `offsets` as in `similarity`.
    """
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    ones = np.ones(len(edges.i), np.int8)
    graph = coo_array((ones, (edges.i - first, edges.j - first)), shape=(count, count))
    _, component = cast(Any, connected_components(graph, directed=False))
    return by_first_appearance(component.astype(np.int64), offsets)


def by_first_appearance(
    groups: Int64[np.ndarray, " sentences"], offsets: Int64[np.ndarray, " bounds"]
) -> Int32[np.ndarray, " sentences"]:
    """Number groups 0, 1, ... within each document by first appearance.

    No group may span two documents.
    """
    if not len(groups):
        return np.zeros(0, np.int32)
    own = np.arange(len(groups))
    founder = np.empty(groups.max() + 1, np.int64)
    founder[groups[::-1]] = own[::-1]  # of equal indices the last is kept: the first sentence
    founded = np.concatenate([[0], np.cumsum(founder[groups] == own)])
    starts = offsets[:-1] - offsets[0]
    earlier = np.repeat(founded[starts], np.diff(offsets))
    return (founded[founder[groups]] - earlier).astype(np.int32)


def pruned_edges(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    config: AnnotationConfig,
    compared: Callable[[int], None] = lambda _: None,
) -> Edges:
    """The kept edges of documents in memory (mutual, Eq. 2 and 3). `offsets` as in `similarity`.

    Raises:
        BadEmbeddingError: A vector is not finite.
    """
    nearest = neighbours(vectors, offsets, config.degree, config.min_distance, compared)
    return prune_to_top_k(nearest, config.top_k, mutual=config.mutual)
