"""The definition one can read and run: similarity graph, pruning and clusters in networkx.

The oracle of the tests, and the slow side of `benchmarks/annotate.py`:
`sentemb_core.annotation` computes the same for whole corpora.
"""

from itertools import combinations
from typing import TypeAlias

import networkx as nx
import numpy as np
from jaxtyping import Float32

Graph: TypeAlias = "nx.Graph[int]"


def document_graph(vectors: Float32[np.ndarray, "sentences dim"]) -> Graph:
    """Every pair of sentences of one document, weighted by the inner product (mutual, Eq. 2)."""
    return weighted_graph(vectors @ vectors.T)


def weighted_graph(weights: Float32[np.ndarray, "sentences sentences"]) -> Graph:
    """The fully connected graph of given weights, of which the upper triangle is read."""
    graph: Graph = nx.Graph()
    graph.add_nodes_from(range(len(weights)))
    pairs = combinations(range(len(weights)), 2)
    graph.add_weighted_edges_from((i, j, float(weights[i, j])) for i, j in pairs)
    return graph


def pruned(graph: Graph, top_k: int, *, mutual: bool = False) -> Graph:
    """Eq. 3, literally: (i, j) stays if j is in the top K of i or (`mutual`: and) i in that of j.

    A sentence is no neighbour of its own; of equal weights the lower index ranks first.
    """
    nearest = {
        i: set(sorted(near, key=lambda j: (-near[j]["weight"], j))[:top_k])
        for i, near in graph.adjacency()
    }
    enough = all if mutual else any
    kept = graph.copy()
    kept.remove_edges_from(
        [(i, j) for i, j in graph.edges if not enough((j in nearest[i], i in nearest[j]))]
    )
    return kept


def graph_clusters(graph: Graph) -> list[int]:
    """Cluster of every sentence: connected components, counted by first appearance."""
    components = sorted(nx.connected_components(graph), key=min)
    label = {i: number for number, members in enumerate(components) for i in members}
    return [label[i] for i in range(len(label))]
