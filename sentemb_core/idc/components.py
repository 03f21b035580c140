"""Connected components of the pruned graph are the clusters (mutual, Algorithm 1)."""

from typing import Any, cast

import numpy as np
from jaxtyping import Int32, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb_core.idc.pruning import Edges


def clusters(
    edges: Edges, offsets: Int64[np.ndarray, " bounds"]
) -> Int32[np.ndarray, " sentences"]:
    """Cluster label of every sentence, counted from 0 in its document by first appearance.

    One call finds the components of all documents at once: a call per document costs more than
    the components do. `offsets` as in `similarity`.
    """
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    ones = np.ones(len(edges.i), np.int8)
    graph = coo_array((ones, (edges.i - first, edges.j - first)), shape=(count, count))
    _, component = cast(Any, connected_components(graph, directed=False))
    return by_first_appearance(component.astype(np.int64), offsets)


def by_first_appearance(
    groups: Int64[np.ndarray, " sentences"], offsets: Int64[np.ndarray, " bounds"]
) -> Int32[np.ndarray, " sentences"]:
    """Rename groups 0, 1, ... within each document, in the order in which they appear.

    No group may span two documents.
    """
    if not len(groups):
        return np.zeros(0, np.int32)
    own = np.arange(len(groups))
    founder = np.empty(groups.max() + 1, np.int64)
    founder[groups[::-1]] = own[::-1]  # of repeated places the last is kept: the first sentence
    founded = np.concatenate([[0], np.cumsum(founder[groups] == own)])
    starts = offsets[:-1] - offsets[0]
    earlier = np.repeat(founded[starts], np.diff(offsets))
    return (founded[founder[groups]] - earlier).astype(np.int32)
