"""Statistics of annotations against counts by hand and scikit-learn."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from sentemb_core.annotation.statistics import (
    ClusterStatistics,
    adjusted_rand,
    cluster_statistics,
    lexical_overlap,
    pair_disagreement,
)

LABELS = np.array([0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 2], np.int32)
OFFSETS = np.array([0, 5, 7, 8, 11])


def test_the_numbers_of_a_small_annotation():
    found = cluster_statistics(LABELS, OFFSETS)
    assert found.cluster_sizes == {2: 2, 3: 1, 1: 4}
    assert found.clusters_per_document == {1: 1, 2: 1, 3: 1}  # without the lone sentence
    assert found.giving_documents == 2
    assert found.mean_clusters == pytest.approx((2 + 1 + 3) / 3)
    assert found.clustered_pairs == 1 + 3 + 1
    assert found.possible_pairs == 10 + 1 + 3
    assert found.kept_share == pytest.approx(5 / 14)


def test_held_out_documents_are_not_counted():
    found = cluster_statistics(LABELS, OFFSETS, np.array([True, False, False, True]))
    assert found.document_sizes == {2: 1, 1: 1}
    assert found.giving_documents == 1
    assert found.kept_share == 1


def test_shards_add_up_to_the_whole():
    parts = [
        cluster_statistics(LABELS[a:b], OFFSETS[c : d + 1])
        for a, b, c, d in ((0, 7, 0, 2), (7, 11, 2, 4))
    ]
    assert parts[0] + parts[1] == cluster_statistics(LABELS, OFFSETS)


drawn = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
    min_size=1,
    max_size=5,
)


def rand_index(one: np.ndarray, other: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The index of each document; 1 where every labelling agrees equally."""
    above, room = adjusted_rand(one, other, offsets)
    return np.divide(above, room, out=np.ones(len(room)), where=room != 0)


@given(drawn)
def test_agreement_equals_scikit_learn(documents):
    one, other = np.array([pair for document in documents for pair in document], np.int32).T
    offsets = np.cumsum([0, *map(len, documents)])
    expected = [adjusted_rand_score(one[a:b], other[a:b]) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(rand_index(one, other, offsets), expected, atol=1e-12)


@given(drawn)
def test_pair_disagreement_equals_a_comparison_of_sets(documents):
    one, other = np.array([pair for document in documents for pair in document], np.int32).T
    offsets = np.cumsum([0, *map(len, documents)])
    a, b = (
        {
            (i, j)
            for start, end in pairwise(offsets)
            for i, j in combinations(range(start, end), 2)
            if labels[i] == labels[j]
        }
        for labels in (one, other)
    )
    expected = len(a ^ b) / len(a | b) if a | b else 0
    assert pair_disagreement(one, other, offsets) == pytest.approx(expected)


def test_overlap_counts_words_not_their_case_order_or_repetition():
    assert lexical_overlap(["The cat, the cat sat"], ["SAT the dog"]) == pytest.approx(2 / 4)
    assert lexical_overlap(["a b", "c"], ["b a", "d"]) == pytest.approx(0.5)
    assert lexical_overlap([], []) == 0
    assert lexical_overlap(["?"], ["!"]) == 0


def test_no_annotation_has_no_share_and_no_mean():
    assert ClusterStatistics().kept_share == 0
    assert ClusterStatistics().mean_clusters == 0


def test_unrelated_labels_agree_like_chance():
    one, other = np.random.default_rng(0).integers(0, 4, (2, 30_000)).astype(np.int32)
    above, room = adjusted_rand(one, other, np.arange(0, 30_001, 30))
    assert above.sum() / room.sum() == pytest.approx(0, abs=0.01)
