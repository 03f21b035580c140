"""Intervals of results, paired differences and averages of two encoders."""

from dataclasses import replace

import numpy as np
import pytest

from sentemb_core.errors import BadDataError
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.bootstrap import Interval, paired_difference
from sentemb_core.evaluation.comparison import (
    SEED,
    Comparison,
    average_comparison,
    comparison,
    interval,
    seeds_interval,
)
from sentemb_core.evaluation.sts import spearman
from sentemb_core.evaluation.task_result import TaskResult


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1_000)


def hits(rate: float, n: int = 400, seed: int = 0, task: str = "t") -> TaskResult:
    units = (np.random.default_rng(seed).random((n, 1)) < rate).astype(np.float64)
    return TaskResult(task, "R@5", {"R@5": float(units.mean())}, units)


def tied(result: TaskResult, by: int = 4) -> TaskResult:
    """The same, of queries that so many at a time answer each other."""
    sums = result.units.reshape(-1, by).sum(1)
    return replace(
        result, units=np.stack([sums, np.full(len(sums), float(by))], 1), statistic="ratio"
    )


def similarities(noise: float, seed: int = 0, n: int = 300) -> TaskResult:
    rng = np.random.default_rng(seed)
    gold = np.random.default_rng(99).uniform(0, 5, n)
    values = gold + noise * rng.normal(size=n)
    measures = {"spearman": spearman(values, gold)}
    return TaskResult("sts", "spearman", measures, np.stack([values, gold], axis=1), "spearman")


def test_interval_contains_its_value():
    for result in (hits(0.4), similarities(2.0)):
        found = interval(result)
        assert found.low < found.mean == result.value < found.high
        assert found.high - found.low < 0.2


def test_difference_of_means_is_paired():
    first, second = hits(0.6), hits(0.4, seed=1)
    expected = paired_difference(first.units[:, 0], second.units[:, 0], SEED)
    found = comparison(first, second)
    assert (found.difference, found.low, found.high) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    assert (found.winner, found.units) == ("first", 400)
    assert comparison(second, first).winner == "second"


@pytest.mark.parametrize(("units", "winner"), [(1, "undecided"), (5, "undecided"), (6, "first")])
def test_fewer_than_six_units_decide_nothing(units: int, winner: str):
    pair = hits(1.0, n=units), hits(0.0, n=units)
    found = comparison(*pair)
    assert bounds(found) == bounds(seeds_interval([[pair] * 3])) == (float(units >= 6), 1.0)
    assert found.winner == winner


def test_tied_queries_widen_the_interval():
    """Four at a time find alike: as sure as a quarter of the queries, twice as wide."""
    alike = [
        replace(one, units=np.repeat(one.units, 4, axis=0))
        for one in (hits(0.6), hits(0.4, seed=1))
    ]
    apart, together = comparison(*alike), comparison(*map(tied, alike))
    assert together.difference == pytest.approx(apart.difference)
    width = (together.high - together.low) / (apart.high - apart.low)
    assert width == pytest.approx(2, abs=0.15)
    assert (apart.units, together.units) == (1600, 400)


def test_correlations_resample_pairs():
    """One encoder with a little noise of its own less than the other: pairing sees it."""
    good, bad = similarities(1.0), similarities(1.15)
    found = comparison(good, bad)
    assert found.winner == "first"
    assert found.difference == pytest.approx(good.value - bad.value)
    assert interval(good).low < interval(bad).high  # which two single intervals hide
    assert comparison(good, replace(good)).winner == "undecided"


def test_average_weighs_tasks_equally():
    pairs = [
        (hits(0.5, 100 * (1 + k), k, f"t{k}"), hits(0.45, 100 * (1 + k), 50 + k, f"t{k}"))
        for k in range(4)
    ]
    found = average_comparison("average", pairs)
    assert found.first == pytest.approx(np.mean([one.value for one, _ in pairs]))
    widths = [one.high - one.low for one in (comparison(*pair) for pair in pairs)]
    assert found.high - found.low < min(widths)
    assert (found.units, found.task) == (1_000, "average")


def averaged(pairs: list[tuple[TaskResult, TaskResult]]) -> list[Interval | Comparison]:
    return [average_comparison("both", pairs), seeds_interval([[pair] for pair in pairs])]


@pytest.mark.parametrize(
    "pair", [(hits(0.6), hits(0.4, seed=1)), (similarities(1.0), similarities(2.0, seed=1))]
)
def test_tasks_with_the_same_examples_count_once(pair: tuple[TaskResult, TaskResult]):
    one = comparison(*pair)
    for found in averaged([pair] * 2):
        assert found.high - found.low == pytest.approx(one.high - one.low, rel=0.1)


def test_tasks_with_different_examples_count_twice():
    pairs = [(hits(0.6, seed=k), hits(0.4, seed=9 + k)) for k in (0, 1)]
    one = comparison(*pairs[0])
    for found in averaged(pairs):
        assert found.high - found.low == pytest.approx((one.high - one.low) / 2**0.5, rel=0.1)


def test_tasks_of_different_sizes_are_drawn_independently():
    """The same random numbers would lift both at once."""
    pairs = [(hits(0.6, n), hits(0.0, n)) for n in (40, 41)]
    widths = [one.high - one.low for one in (comparison(*pair) for pair in pairs)]
    for found in averaged(pairs):
        expected = np.mean(widths) / 2**0.5
        assert found.high - found.low == pytest.approx(expected, rel=0.1)


def test_share_and_correlation_of_the_same_examples_share_draws():
    """A unit's gain in both at once makes the mean less sure than two that are drawn apart."""
    first, second = similarities(1.0), similarities(2.0, seed=1)
    errors = [np.diff(one.units, axis=1) ** 2 / one.units[:, 0].var() for one in (second, first)]
    worth = (errors[0] - errors[1]) / np.std(errors[0] - errors[1])
    alike = TaskResult("t", "R@5", {"R@5": float(worth.mean())}, worth)
    shuffled = replace(alike, units=np.random.default_rng(0).permutation(worth))
    nothing = replace(alike, units=np.zeros_like(worth), measures={"R@5": 0.0})
    pairs = [(first, second), (alike, nothing)], [(first, second), (shuffled, nothing)]
    for tied, apart in zip(*map(averaged, pairs), strict=True):
        assert tied.high - tied.low > 1.03 * (apart.high - apart.low)


def test_results_on_other_units_tasks_measures_or_gold_are_refused():
    share, correlation = hits(0.5), similarities(1.0)
    for first, second, values in [
        (share, hits(0.5, n=399), r"\(400, 1\).* \(399, 1\)"),
        (share, replace(share, task="u"), "'t', .*'u', "),
        (share, replace(share, main="P@5", measures={"P@5": 0.5}), "'R@5', .*'P@5', "),
        (correlation, replace(correlation, units=correlation.units[::-1]), "other gold scores"),
    ]:
        with pytest.raises(BadDataError, match=values):
            comparison(first, second)
    with pytest.raises(BadDataError, match=r"\(400, 1\).* \(30, 1\)"):
        seeds_interval([[(hits(0.6), hits(0.4)), (hits(0.6, n=30), hits(0.4, n=30))]])


def bounds(found: Interval | Comparison) -> tuple[float, float]:
    return found.low, found.high


def test_one_seed_of_one_task_equals_a_comparison():
    for first, second in (
        (hits(0.6), hits(0.4, seed=1)),
        (tied(hits(0.6)), tied(hits(0.4, seed=1))),
        (similarities(1.0), similarities(3.0, seed=1)),
    ):
        plain, seeds = comparison(first, second), seeds_interval([[(first, second)]])
        assert (seeds.mean, *bounds(seeds)) == pytest.approx((plain.difference, *bounds(plain)))


def test_seeds_share_their_draws():
    """The interval is that of every unit's mean over the seeds, as if they were one encoder."""
    firsts, seconds = ([hits(rate, seed=seed) for seed in range(3)] for rate in (0.6, 0.5))
    merged = [
        replace(side[0], units=np.mean([one.units for one in side], axis=0), measures={"R@5": mean})
        for side in (firsts, seconds)
        for mean in [float(np.mean([one.value for one in side]))]
    ]
    found = seeds_interval([list(zip(firsts, seconds, strict=True))])
    assert bounds(found) == pytest.approx(bounds(comparison(*merged)), abs=0.003)


@pytest.mark.parametrize(
    "pair", [(hits(0.6), hits(0.4, seed=1)), (similarities(1), similarities(3))]
)
def test_repeated_seed_keeps_the_interval(pair: tuple[TaskResult, TaskResult]):
    once, twice = (seeds_interval([[pair] * count]) for count in (1, 2))
    assert bounds(twice) == pytest.approx(bounds(once))


def test_more_seeds_shrink_the_interval():
    pairs = [(hits(0.6, seed=seed), hits(0.4, seed=100 + seed)) for seed in range(5)]
    found = seeds_interval([pairs])
    singles = [comparison(*pair) for pair in pairs]
    assert found.mean == pytest.approx(np.mean([one.difference for one in singles]))
    assert found.high - found.low < min(one.high - one.low for one in singles)


def test_tasks_weigh_by_their_number_of_pairs():
    sure, noisy = (hits(1.0), hits(0.0)), (hits(0.5), hits(0.4, seed=1))
    found = seeds_interval([[sure] * 3, [noisy]])
    alone = comparison(*noisy)
    assert found.mean == pytest.approx((3 + alone.difference) / 4)
    assert found.high - found.low == pytest.approx((alone.high - alone.low) / 4, rel=0.1)
