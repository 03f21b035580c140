"""Vectors of documents and their best sentences against plain loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.retriever import vectors
from sentemb_core.retriever.vectors import (
    Sides,
    document_scores,
    joined,
    rows_of,
    side_of,
    text_scores,
)
from tests.retriever import made

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=9)


def loop(text: np.ndarray, document: int, documents: Sides, best_sentence: float) -> float:
    first, end = documents.starts[document : document + 2]
    best = max(float(text @ sentence) for sentence in documents.sentences[first:end])
    return float(text @ documents.vectors[document]) + best_sentence * best


@given(sizes=SIZES, seed=st.integers(0, 10**6), weight=st.sampled_from([0.0, 0.5, 2.0]))
def test_scores_equal_a_plain_loop_in_both_directions(sizes, seed, weight):
    rng = np.random.default_rng(seed)
    documents, texts = made.side(rng, sizes), made.side(rng, [1, 1, 1])
    expected = np.array(
        [
            [loop(text, document, documents, weight) for document in range(len(sizes))]
            for text in texts.vectors
        ]
    )
    some = np.array([2, 0])
    assert text_scores(texts, documents, weight)(some) == pytest.approx(expected[some], abs=1e-5)
    back = document_scores(documents, texts, weight)(np.arange(len(sizes)))
    assert back == pytest.approx(expected.T, abs=1e-5)


@pytest.mark.parametrize("cells", [1, 7, 1 << 24])
def test_blocks_of_sentences_do_not_change_scores(monkeypatch, cells):
    monkeypatch.setattr(vectors, "CELLS", cells)
    rng = np.random.default_rng(0)
    documents, texts = made.side(rng, [3, 1, 12, 2, 5]), made.side(rng, [1, 1])
    expected = [[loop(text, k, documents, 0.5) for k in range(5)] for text in texts.vectors]
    assert text_scores(texts, documents, 0.5)(np.arange(2)) == pytest.approx(
        np.array(expected), abs=1e-5
    )


@given(sizes=SIZES, seed=st.integers(0, 10**6))
def test_a_document_has_the_mean_direction_of_its_sentences(sizes, seed):
    side = made.side(np.random.default_rng(seed), sizes)
    for k, vector in enumerate(side.vectors):
        mean = side.sentences[side.starts[k] : side.starts[k + 1]].mean(axis=0)
        assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_a_text_without_a_known_token_has_a_zero_vector():
    side = side_of(np.zeros((2, 4), np.float32), np.array([0, 2]))
    assert not side.vectors.any()


@given(seed=st.integers(0, 10**6), weight=st.floats(0.1, 10))
def test_cosines_of_joined_vectors_are_weighted_means(seed, weight):
    rng = np.random.default_rng(seed)
    one, two = made.side(rng, [2, 3, 1]), made.side(rng, [2, 3, 1])
    both = joined([(1.0, one), (weight, two)])
    expected = one.vectors @ one.vectors.T + weight * (two.vectors @ two.vectors.T)
    assert both.vectors @ both.vectors.T == pytest.approx(expected / (1 + weight), abs=1e-5)
    assert np.linalg.norm(both.sentences, axis=1) == pytest.approx(1, abs=1e-5)


@given(sizes=SIZES, picks=st.lists(st.integers(0, 8), max_size=5))
def test_rows_of_some_texts(sizes, picks):
    texts = np.array([pick % len(sizes) for pick in picks], np.int64)
    bounds = made.starts_of(sizes)
    rows, starts = rows_of(bounds, texts)
    expected = [list(range(bounds[k], bounds[k + 1])) for k in texts.tolist()]
    found = [rows[first:end].tolist() for first, end in pairwise(starts)]
    assert found == expected
