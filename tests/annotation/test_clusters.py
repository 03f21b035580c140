"""Clusters of drawn documents against networkx, and the properties every clustering has."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.annotation.pruning import by_first_appearance, clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from tests import networks

MARGIN = 1e-5
"""Similarities of a drawn document differ by more than the rounding of any product order."""

corpora = st.tuples(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 12), min_size=1, max_size=5))
checked = settings(deadline=None, max_examples=40)


def tie_free(seed: int, lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of documents in which no two similarities of a sentence are close."""
    rng = np.random.default_rng(seed)
    documents = []
    while len(documents) < len(lengths):
        vectors = rng.standard_normal((lengths[len(documents)], 5)).astype(np.float32)
        weights = np.sort(vectors @ vectors.T, axis=1)
        if (np.diff(weights, axis=1) > MARGIN).all():
            documents.append(vectors)
    return np.concatenate(documents), np.cumsum([0, *lengths])


def labels_of(
    vectors: np.ndarray, offsets: np.ndarray, top_k: int, *, mutual: bool = False
) -> np.ndarray:
    near = neighbours(vectors, offsets, max(top_k, 3))
    return clusters(prune_to_top_k(near, top_k, mutual=mutual), offsets)


def same_cluster(labels: np.ndarray) -> np.ndarray:
    return labels[:, None] == labels[None]


def documents_of(offsets: np.ndarray) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(offsets)]


@checked
@given(corpora, st.integers(1, 4), st.booleans())
def test_labels_equal_the_networkx_definition(corpus, top_k, mutual):
    vectors, offsets = tie_free(*corpus)
    labels = labels_of(vectors, offsets, top_k, mutual=mutual)
    for document in documents_of(offsets):
        graph = networks.document_graph(vectors[document])
        assert labels[document].tolist() == networks.graph_clusters(
            networks.pruned(graph, top_k, mutual=mutual)
        )


@checked
@given(corpora)
def test_k1_leaves_no_singletons(corpus):
    vectors, offsets = tie_free(*corpus)
    labels = labels_of(vectors, offsets, 1)
    for document in documents_of(offsets):
        if document.stop - document.start > 1:
            assert np.bincount(labels[document]).min() >= 2


@checked
@given(corpora)
def test_k1_has_a_cluster_for_each_mutually_nearest_pair(corpus):
    vectors, offsets = tie_free(*corpus)
    nearest = neighbours(vectors, offsets, 1).index[:, 0]
    labels = labels_of(vectors, offsets, 1)
    for document in documents_of(offsets):
        if document.stop - document.start > 1:
            own = np.arange(document.start, document.stop)
            mutual = (nearest[nearest[own]] == own).sum() // 2
            assert labels[document].max() + 1 == mutual


@checked
@given(corpora)
def test_k1_edges_form_a_forest_without_singletons(corpus):
    vectors, offsets = tie_free(*corpus)
    kept = prune_to_top_k(neighbours(vectors, offsets, 1), 1)
    for document in documents_of(offsets):
        size = document.stop - document.start
        edges = ((kept.i >= document.start) & (kept.i < document.stop)).sum()
        assert -(-size // 2) <= edges <= size - 1 or size == 1


@checked
@given(corpora)
def test_with_all_neighbours_a_document_is_one_cluster(corpus):
    vectors, offsets = tie_free(*corpus)
    labels = labels_of(vectors, offsets, max(3, int(np.diff(offsets).max()) - 1))
    assert not labels.any()


@checked
@given(corpora, st.integers(1, 4), st.booleans())
def test_a_larger_top_k_never_splits_a_cluster(corpus, top_k, mutual):
    vectors, offsets = tie_free(*corpus)
    fewer = labels_of(vectors, offsets, top_k, mutual=mutual)
    more = labels_of(vectors, offsets, top_k + 1, mutual=mutual)
    for document in documents_of(offsets):
        assert (same_cluster(fewer[document]) <= same_cluster(more[document])).all()


@checked
@given(corpora, st.integers(1, 3))
def test_the_order_of_the_sentences_changes_nothing(corpus, top_k):
    vectors, offsets = tie_free(*corpus)
    rng = np.random.default_rng(corpus[0])
    shuffle = np.concatenate(
        [rng.permutation(np.arange(d.start, d.stop)) for d in documents_of(offsets)]
    )
    labels = labels_of(vectors, offsets, top_k)
    shuffled = labels_of(vectors[shuffle], offsets, top_k)
    for document in documents_of(offsets):
        before = labels[shuffle][document]
        assert (same_cluster(before) == same_cluster(shuffled[document])).all()


@checked
@given(corpora, st.integers(1, 3))
def test_a_monotone_change_of_the_similarity_changes_nothing(corpus, top_k):
    vectors, offsets = tie_free(*corpus)
    first = documents_of(offsets)[0]
    weights = vectors[first] @ vectors[first].T
    bent = networks.weighted_graph(np.exp(weights / np.abs(weights).max()))
    labels = labels_of(vectors * 4, offsets, top_k)
    assert labels[first].tolist() == networks.graph_clusters(networks.pruned(bent, top_k))


@checked
@given(corpora, st.integers(0, 6))
def test_shards_change_nothing(corpus, cut):
    vectors, offsets = tie_free(*corpus)
    cut = min(cut, len(offsets) - 1)
    whole = labels_of(vectors, offsets, 1)
    parts = [
        labels_of(vectors[part[0] : part[-1]], part, 1)
        for part in (offsets[: cut + 1], offsets[cut:])
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_groups_are_numbered_by_first_appearance():
    groups = np.array([5, 2, 5, 9, 9, 8])
    assert by_first_appearance(groups, np.array([10, 13, 13, 16])).tolist() == [0, 1, 0, 0, 0, 1]


@checked
@given(corpora, st.integers(1, 3), st.booleans())
def test_labels_count_from_zero_in_order_of_appearance(corpus, top_k, mutual):
    vectors, offsets = tie_free(*corpus)
    labels = labels_of(vectors, offsets, top_k, mutual=mutual)
    for document in documents_of(offsets):
        seen = list(dict.fromkeys(labels[document].tolist()))
        assert seen == list(range(len(seen)))
