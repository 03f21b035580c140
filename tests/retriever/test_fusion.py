"""Standardised scores against scipy; candidates that are ranked again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import zscore

from sentemb_core.retriever.fusion import first_places, fused, ranked_again, standardised

FINITE = st.floats(-1e3, 1e3, width=32)
SCORES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=FINITE
)


def distinct(rng: np.random.Generator, rows: int = 5, columns: int = 30) -> np.ndarray:
    return rng.permuted(np.tile(np.arange(columns, dtype=np.float64), (rows, 1)), axis=1)


@given(seed=st.integers(0, 10**6))
def test_standardised_is_scipys_zscore(seed: int):
    scores = np.random.default_rng(seed).standard_normal((4, 12)) * 7 + 3
    assert standardised(scores) == pytest.approx(zscore(scores, axis=1), abs=1e-9)


@given(scores=SCORES)
def test_equal_scores_become_0_and_no_score_is_infinite(scores: np.ndarray):
    scores[0] = scores[0, 0]
    z = standardised(scores)
    assert np.isfinite(z).all()
    assert (z[0] == 0).all()


def test_only_marked_candidates_count():
    scores, among = np.array([[1.0, 2, 3, 100]]), np.array([[True, True, True, False]])
    z = standardised(scores, among)
    assert z[0, :3] == pytest.approx(zscore(scores[0, :3]))


@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 50), shift=st.floats(-50, 50))
def test_fusion_ignores_scale_and_shift_of_a_part(seed: int, scale: float, shift: float):
    first, second = np.random.default_rng(seed).standard_normal((2, 3, 20))
    whole = fused([(0.3, first), (0.7, second)])
    assert fused([(0.3, first * scale + shift), (0.7, second)]) == pytest.approx(whole, abs=1e-6)
    assert whole == pytest.approx(0.3 * zscore(first, axis=1) + 0.7 * zscore(second, axis=1))


@given(seed=st.integers(0, 10**6), count=st.integers(1, 40))
def test_first_places_are_the_highest_scores(seed: int, count: int):
    scores = distinct(np.random.default_rng(seed))
    marked = first_places(scores, count)
    assert (marked.sum(axis=1) == min(count, scores.shape[1])).all()
    for row, some in zip(scores, marked, strict=True):
        assert row[some].min() > row[~some].max(initial=-1)


def test_ties_at_the_last_place_are_all_kept():
    assert first_places(np.array([[3.0, 1, 1, 1, 0]]), 2).tolist() == [[True] * 4 + [False]]


@given(seed=st.integers(0, 10**6), count=st.integers(1, 30))
def test_candidates_ranked_again_stay_above_the_others(seed: int, count: int):
    rng = np.random.default_rng(seed)
    scores, again = distinct(rng), distinct(rng)
    among = first_places(scores, count)
    result = ranked_again(scores, again, among)
    for row, old, new, some in zip(result, scores, again, among, strict=True):
        assert (row[some] == new[some]).all()
        assert row[~some].max(initial=-np.inf) < row[some].min()
        assert (np.argsort(row[~some]) == np.argsort(old[~some])).all()
