"""Exact search against a full sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.retrieval import dense
from sentemb_core.retrieval.dense import search


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    k=st.integers(1, 45),
    values=st.integers(1, 4),
)
def test_search_equals_a_full_sort(seed: int, n: int, k: int, values: int):
    rng = np.random.default_rng(seed)
    queries = rng.integers(-values, values + 1, (3, 2)).astype(np.float32)
    vectors = rng.integers(-values, values + 1, (n, 2)).astype(np.float32)  # many exact ties
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "BLOCK", 7)
        index, scores = search(queries, vectors, k)
    full = queries @ vectors.T
    for row, found, value in zip(full, index, scores, strict=True):
        expected = sorted(range(n), key=lambda j: (-row[j], j))[:k]
        assert found.tolist() == expected
        assert value.tolist() == row[expected].tolist()


def test_equal_vectors_keep_their_order():
    index, _ = search(np.ones((1, 4), np.float32), np.ones((20_000, 4), np.float32), 3)
    assert index.tolist() == [[0, 1, 2]]


def test_no_vectors_give_no_hits():
    index, scores = search(np.ones((2, 4), np.float32), np.empty((0, 4), np.float32), 3)
    assert index.shape == scores.shape == (2, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_score_that_is_not_finite_is_refused(bad: float):
    vectors = np.ones((5, 2), np.float32)
    vectors[3] = bad
    with pytest.raises(BadEmbeddingError, match="vectors 0 to 4"):
        search(np.ones((1, 2), np.float32), vectors, 2)
