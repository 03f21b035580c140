"""The multinomial shortcut against resampling one by one, and against the normal approximation."""

import numpy as np
import pytest
from scipy import stats

from sentemb_core.errors import BadDataError
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.bootstrap import (
    LEVEL,
    Interval,
    confidence_interval,
    difference_of,
    interval_of,
    over_seeds,
    paired_difference,
    resampled_means,
    resampled_ratios,
)


def test_multinomial_draws_equal_resampling():
    values = np.random.default_rng(0).choice([0.0, 0.2, 0.5, 1.0], 300)
    rng = np.random.default_rng(1)
    slow = np.array([rng.choice(values, 300).mean() for _ in range(4_000)])
    fast = resampled_means(values, seed=2)
    levels = [0.025, 0.25, 0.5, 0.75, 0.975]
    assert np.quantile(fast, levels) == pytest.approx(np.quantile(slow, levels), abs=0.005)


def test_interval_of_a_hit_rate_is_normal():
    values = np.repeat([1.0, 0.0], [600, 400])
    found = confidence_interval(values, seed=0)
    half = 1.96 * np.sqrt(0.6 * 0.4 / 1000)
    assert found.mean == 0.6
    assert (found.low, found.high) == pytest.approx((0.6 - half, 0.6 + half), abs=0.003)


def test_interval_has_its_nominal_coverage():
    rng = np.random.default_rng(3)
    samples = [(rng.random(200) < 0.7).astype(np.float64) for _ in range(200)]
    intervals = [confidence_interval(sample, seed=n) for n, sample in enumerate(samples)]
    covered = np.mean([found.low <= 0.7 <= found.high for found in intervals])
    assert 0.90 <= covered <= 0.99


def test_interval_over_seeds_without_units_is_students():
    gains = [0.09, 0.1, 0.11]
    found = over_seeds(Interval(0.1, 0.1, 0.1), gains)
    expected = stats.t.interval(LEVEL, 2, loc=0.1, scale=0.01 / np.sqrt(3))
    assert (found.low, found.high) == pytest.approx(expected)


def test_equal_seeds_keep_the_interval_over_units():
    found = over_seeds(Interval(0.1, 0.07, 0.11), [0.1, 0.1, 0.1])
    assert (found.low, found.high) == pytest.approx((0.07, 0.11))


@pytest.mark.parametrize(("of_units", "of_training"), [(0.005, 0.008), (0.01, 0.002), (0.0, 0.01)])
def test_interval_over_seeds_has_its_nominal_coverage(of_units: float, of_training: float):
    """Three seeds share their queries; an interval over queries alone covers two in three."""
    rng = np.random.default_rng(0)

    def covers() -> bool:
        gains = (rng.normal(0, of_units) + rng.normal(0, of_training, 3)).tolist()
        half = 1.96 * of_units
        mean = sum(gains) / 3
        found = over_seeds(Interval(mean, mean - half, mean + half), gains)
        return found.low < 0 < found.high

    assert np.mean([covers() for _ in range(4_000)]) == pytest.approx(LEVEL, abs=0.025)


def test_ratios_resample_whole_groups():
    rng = np.random.default_rng(0)
    groups = [rng.choice([0.0, 1.0], size) for size in rng.integers(1, 6, 80)]
    slow = [
        np.concatenate([groups[place] for place in rng.integers(80, size=80)]).mean()
        for _ in range(4_000)
    ]
    totals, sizes = np.array([[one.sum(), len(one)] for one in groups]).T
    levels = [0.025, 0.25, 0.5, 0.75, 0.975]
    fast = resampled_ratios(totals, sizes, seed=2)
    assert np.quantile(fast, levels) == pytest.approx(np.quantile(slow, levels), abs=0.01)


def test_equal_queries_count_once():
    """Ten titles of a product that are found together count as one."""
    hits = np.random.default_rng(0).choice([0.0, 1.0], 50)
    ten = interval_of(hits.mean(), resampled_ratios(10 * hits, np.full(50, 10.0), seed=0))
    one = confidence_interval(hits, seed=0)
    assert (ten.low, ten.high) == pytest.approx((one.low, one.high), abs=0.021)


def test_pairing_is_more_powerful_than_two_intervals():
    hard = np.random.default_rng(4).random(400)
    first, second = hard * 0.5 + 0.02, hard * 0.5
    found = paired_difference(first, second, seed=0)
    assert found.low == pytest.approx(0.02)
    assert found.superiority == 1.0
    assert confidence_interval(first, 0).low < confidence_interval(second, 0).high


def test_swapping_the_sides_mirrors_the_interval():
    rng = np.random.default_rng(5)
    hits = [(rng.random(30) < share) / 3 for share in (0.4, 0.3)]  # few values: an end at 0
    for first, second in ([rng.random(100) for _ in range(2)], hits):
        there, back = paired_difference(first, second, 0), paired_difference(second, first, 0)
        assert there.mean == -back.mean
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-15)
        assert there.superiority == pytest.approx(1 - back.superiority, abs=1e-12)


def test_differences_of_rounding_count_as_equal():
    thirds = np.array([1 / 3, -1 / 3, 2 / 3, -2 / 3, 1 / 3, -1 / 3])
    drawn = resampled_means(thirds, 0)
    equal = (np.rint(drawn * 18) == 0).mean()
    assert 0 < equal < 1
    found = difference_of(0.0, drawn, len(thirds))
    assert found.superiority == pytest.approx((np.rint(drawn * 18) > 0).mean() + equal / 2)

    residues = difference_of(0.0, np.array([1e-16, 1e-16, -1e-16, 0.25]), 9)
    assert residues.superiority == (3 / 2 + 1) / 4


def test_fewer_than_six_units_decide_nothing():
    for units, least in ((5, 0.0), (6, 0.2)):
        gains = np.full(units, 0.2)
        assert paired_difference(gains, 0 * gains, 0).low == pytest.approx(least)
        assert paired_difference(0 * gains, gains, 0).high == pytest.approx(-least)


def test_one_seed_and_equal_seeds_widen_nothing():
    for units, gains in (
        (Interval(0.1, 0.07, 0.11), [0.1]),
        (Interval(0.1, 0.1, 0.1), [0.1, 0.1]),
    ):
        assert over_seeds(units, gains) == units


def test_higher_level_widens_the_interval():
    units, gains = Interval(0.1, 0.07, 0.13), [0.09, 0.1, 0.11]
    usual, surer = over_seeds(units, gains), over_seeds(units, gains, 0.99)
    assert surer.low < usual.low < usual.high < surer.high


def test_equal_sides_have_superiority_one_half():
    values = np.random.default_rng(6).random(50)
    found = paired_difference(values, values.copy(), 0)
    assert (found.mean, found.low, found.high, found.superiority) == (0, 0, 0, 0.5)


def test_draws_depend_on_the_seed():
    values = np.random.default_rng(7).random(50)
    assert (resampled_means(values, 1) == resampled_means(values, 1)).all()
    assert (resampled_means(values, 1) != resampled_means(values, 2)).any()


def test_blocks_keep_the_distribution(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "CELLS", 10_000)
    means = resampled_means(np.random.default_rng(8).random(500), 0)
    assert len(means) == bootstrap.RESAMPLES
    assert means.std() == pytest.approx(np.sqrt(1 / 12 / 500), rel=0.1)


def test_unequal_sides_no_values_and_nan_are_refused():
    with pytest.raises(BadDataError, match="3 and 4"):
        paired_difference(np.zeros(3), np.zeros(4), 0)
    for values, counts in (([], "0 queries, 0 "), ([0.5, np.nan], "2 queries, 1 ")):
        with pytest.raises(BadDataError, match=counts):
            resampled_means(np.array(values, dtype=np.float64), 0)
