"""Ranks of counted pairs against resampling one by one with scipy, and the paired difference."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from sentemb_core.errors import BadDataError
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.bootstrap import resampled_spearman


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 400)


@given(
    values=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    counts=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_ranks_of_counted_values_equal_scipy(values: list[int], counts: list[int]):
    n = len(values)
    drawn = np.array(counts[:n])
    drawn[0] += n - drawn.sum()  # a resample has as many pairs as the set
    assume(drawn[0] >= 0)
    ties = bootstrap._ties(np.array(values, float))
    doubled, squares = bootstrap._centred_ranks(ties, drawn[:, None].astype(np.float64))
    written_out = np.repeat(values, drawn)
    expected = 2 * rankdata(written_out) - (n + 1)
    for value, rank in zip(values, doubled[:, 0], strict=True):
        if value in written_out:
            assert rank == expected[list(written_out).index(value)]
    assert squares[0] == (expected**2).sum()


def sample(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, n).astype(np.float64)
    return (gold + noise * rng.normal(size=n)).round(1), gold


def test_distribution_equals_resampling_with_scipy():
    values, gold = sample(200, 2.0)
    rng = np.random.default_rng(1)
    places = rng.integers(200, size=(400, 200))
    slow = np.array([spearmanr(values[one], gold[one]).statistic for one in places])
    fast = resampled_spearman(values[:, None], gold, seed=2)[:, 0]
    levels = [0.025, 0.25, 0.5, 0.75, 0.975]
    assert np.quantile(fast, levels) == pytest.approx(np.quantile(slow, levels), abs=0.025)


def test_blocks_keep_the_draws(monkeypatch: pytest.MonkeyPatch):
    values, gold = sample(50, 1.0)
    whole = resampled_spearman(values[:, None], gold, seed=3)
    monkeypatch.setattr(bootstrap, "COUNTED", 50 * 7)
    assert np.array_equal(resampled_spearman(values[:, None], gold, seed=3), whole)


def test_columns_share_their_resamples():
    values, gold = sample(60, 1.0)
    found = resampled_spearman(np.stack([values, 3 * values + 1], axis=1), gold, seed=0)
    assert np.array_equal(found[:, 0], found[:, 1])
    assert found.std() > 0


def test_interval_has_its_nominal_coverage():
    """Spearman's of two normals with correlation r is 6 / pi * asin(r / 2)."""
    truth = 6 / np.pi * np.arcsin(0.6 / 2)
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        gold = rng.normal(size=120)
        values = 0.6 * gold + 0.8 * rng.normal(size=120)
        low, high = np.quantile(resampled_spearman(values[:, None], gold, seed), [0.025, 0.975])
        covered += bool(low <= truth <= high)
    assert 88 <= covered <= 100


def test_constant_values_have_correlation_0():
    assert not resampled_spearman(np.ones((9, 1)), np.arange(9.0), seed=0).any()


@pytest.mark.parametrize(
    ("columns", "gold"), [(np.zeros((0, 1)), np.zeros(0)), (np.full((3, 1), np.nan), np.ones(3))]
)
def test_nothing_and_nan_are_refused(columns: np.ndarray, gold: np.ndarray):
    with pytest.raises(BadDataError, match=rf"found {len(gold)} pairs"):
        resampled_spearman(columns, gold, seed=0)
