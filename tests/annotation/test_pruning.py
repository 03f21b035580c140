"""Eq. 3 in arrays equals Eq. 3 in networkx; a top_k outside the graph is refused."""

import numpy as np
import pytest

from sentemb_core.annotation.pruning import prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.errors import UsageError
from tests import networks

VECTORS = np.random.default_rng(3).standard_normal((11, 6)).astype(np.float32)


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("top_k", [1, 2, 3, 10])
def test_kept_edges_equal_the_networkx_definition(top_k: int, mutual: bool):
    edges = prune_to_top_k(neighbours(VECTORS, np.array([0, 11]), 10), top_k, mutual=mutual)
    graph = networks.pruned(networks.document_graph(VECTORS), top_k, mutual=mutual)
    assert list(zip(edges.i.tolist(), edges.j.tolist(), strict=True)) == sorted(graph.edges)
    for i, j, weight in zip(edges.i, edges.j, edges.weight, strict=True):
        assert weight == pytest.approx(graph[int(i)][int(j)]["weight"], abs=1e-5)


def test_a_smaller_top_k_needs_no_new_graph():
    deep, shallow = (neighbours(VECTORS, np.array([0, 11]), degree) for degree in (8, 2))
    np.testing.assert_array_equal(prune_to_top_k(deep, 2).j, prune_to_top_k(shallow, 2).j)


@pytest.mark.parametrize("top_k", [0, 3])
def test_a_top_k_above_the_degree_is_refused(top_k: int):
    with pytest.raises(UsageError, match=rf"top_k {top_k}\b.*degree 2\b"):
        prune_to_top_k(neighbours(VECTORS, np.array([0, 11]), 2), top_k)
