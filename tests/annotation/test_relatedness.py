"""The estimate of relatedness on mixtures whose truth is known."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.annotation.relatedness import (
    PROBABLE,
    Relatedness,
    distant_pairs,
    pairs_across,
    related_pairs,
    relatedness,
)
from sentemb_core.documents import spans_in


def mixture(share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Similarities within and across documents, and which of those within are related."""
    rng = np.random.default_rng(seed)
    related = rng.random(20_000) < share
    within = np.where(related, rng.normal(0.7, 0.1, 20_000), rng.normal(0.1, 0.15, 20_000))
    across = rng.normal(0.1, 0.15, 20_000)
    return within.astype(np.float32), across.astype(np.float32), related


@given(st.floats(0, 1), st.integers(0, 100))
@settings(max_examples=20)
def test_the_share_of_related_pairs_is_found_without_labels(share: float, seed: int):
    within, across, related = mixture(share, seed)
    assert abs(relatedness(within, across).share - related.mean()) < 0.03


@given(st.floats(0.05, 0.95), st.integers(0, 100))
@settings(max_examples=20)
def test_the_probability_of_being_related_is_calibrated(share: float, seed: int):
    """Within three standard errors of the counted unrelated pairs and of the selected pairs."""
    within, across, related = mixture(share, seed)
    posterior = relatedness(within, across).of(within)
    for low in (0.0, 0.5, 0.9):
        selected = (posterior >= low) & (posterior < low + 0.5)
        if selected.sum() > 500:
            error = 3 / np.sqrt((1 - share) * len(within) / 2) + 1.5 / np.sqrt(selected.sum())
            assert abs(related[selected].mean() - posterior[selected].mean()) < error


def test_documents_of_unrelated_sentences_have_no_related_pair():
    across = np.random.default_rng(0).normal(0, 1, 10_000).astype(np.float32)
    found = relatedness(across[:5_000], across[5_000:])
    assert found.share < 0.05
    assert found.of(across).mean() < 0.1


@pytest.mark.parametrize("zeros", [0.0, 0.2, 0.4, 0.9, 1.0])
def test_equal_similarities_make_no_pair_related(zeros: float):
    """Unrelated pairs, of which a share is level: of a collapsed encoder, or without a vector."""
    rng = np.random.default_rng(0)
    within, across = (
        np.where(rng.random(20_000) < zeros, 0.0, rng.normal(0.2, 0.1, 20_000)).astype(np.float32)
        for _ in range(2)
    )
    found = relatedness(within, across)
    assert found.share is not None
    assert found.share < 0.05
    assert (found.of(within) < PROBABLE).all()


def test_without_pairs_on_one_side_no_pair_is_related():
    """Documents of two sentences have no distant pair, one document has no pair across."""
    vectors, some = np.ones((6, 2), np.float32), np.ones(3, np.float32)
    for within, across in ((some[:0], some), (some, some[:0]), (some[:0], some[:0])):
        model = relatedness(within, across)
        assert model.share is None
        i, j = related_pairs(vectors, np.array([0, 6]), model, 4, np.random.default_rng(0))
        assert len(i) == len(j) == 0


def test_the_probability_never_falls_with_the_similarity():
    within, across, _ = mixture(0.4, 0)
    rising = relatedness(within, across).of(np.linspace(-2, 2, 500, dtype=np.float32))
    assert (np.diff(rising) >= 0).all()
    assert rising[-1] > 0.99


def test_distant_pairs_are_in_one_document_and_not_adjacent():
    offsets = np.array([0, 1, 3, 9, 9, 20])
    i, j = distant_pairs(partial(spans_in, offsets), 20, 500, np.random.default_rng(0))
    document = np.repeat(np.arange(5), np.diff(offsets))
    assert (document[i] == document[j]).all()
    assert np.abs(i - j).min() == 2
    assert {*document[i].tolist()} == {2, 4}


@pytest.mark.parametrize(("min_distance", "documents"), [(1, {1, 2, 4}), (2, {2, 4}), (6, {4})])
def test_related_pairs_keep_the_distance_of_partners(min_distance: int, documents: set[int]):
    offsets = np.array([0, 1, 3, 9, 9, 20])
    vectors, model = np.ones((20, 2), np.float32), Relatedness(np.array([0.0]), np.ones(2), 1.0)
    rng = np.random.default_rng(0)
    i, j = related_pairs(vectors, offsets, model, 200, rng, min_distance)
    assert (j - i).min() == min_distance
    assert {*np.repeat(np.arange(5), np.diff(offsets))[i].tolist()} == documents


def test_pairs_across_are_of_different_documents():
    offsets = np.array([0, 1, 3, 9, 9, 20])
    i, j = pairs_across(partial(spans_in, offsets), 20, 500, np.random.default_rng(0))
    document = np.repeat(np.arange(5), np.diff(offsets))
    assert (document[i] != document[j]).all()
    assert {*i.tolist(), *j.tolist()} == {*range(20)}


def of_topics(documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Documents of 12 sentences of two topics, shuffled: vectors, offsets, topics."""
    rng = np.random.default_rng(0)
    topics = np.concatenate([rng.permutation(np.repeat(rng.choice(40, 2, replace=False), 6))
                             for _ in range(documents)])  # fmt: skip
    noisy = rng.standard_normal((40, 32))[topics] + 0.7 * rng.standard_normal((len(topics), 32))
    vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
    return vectors, np.arange(documents + 1) * 12, topics


def test_pairs_of_one_topic_are_found_in_documents_that_mix_two():
    vectors, offsets, topics = of_topics(400)
    rng = np.random.default_rng(0)
    within, across = (
        pairs(partial(spans_in, offsets), len(vectors), 20_000, rng)
        for pairs in (distant_pairs, pairs_across)
    )
    model = relatedness(
        *(np.einsum("nd,nd->n", vectors[i], vectors[j]) for i, j in (within, across))
    )
    i, j = related_pairs(vectors[1200:2400], offsets[100:201], model, 3_000, rng)
    assert len(i) == 3_000
    assert (i + 2 <= j).all()
    assert (i // 12 == j // 12).all()
    assert i.min() >= 1200
    assert j.max() < 2400
    assert (topics[within[0]] == topics[within[1]]).mean() < 0.5
    assert (topics[i] == topics[j]).mean() > 0.9


@pytest.mark.parametrize(("probability", "drawn"), [(0.2, 0), (0.7, 0), (0.9, 10)])
def test_only_probable_pairs_are_drawn(probability: float, drawn: int):
    model = Relatedness(np.array([0.0]), np.array([0.1, probability]), 0.5)
    vectors, offsets, _ = of_topics(3)
    i, j = related_pairs(vectors, offsets, model, 10, np.random.default_rng(0))
    assert len(i) == len(j) == drawn
