"""The bootstrap over queries (Efron 1979): percentile intervals of means and of differences.

Resampling n values with replacement draws the number of times that each distinct value occurs. So
one multinomial draw over the distinct values replaces n draws: the distribution is the same, and a
metric with few values (hit or miss) is cheap at any number of queries. A correlation is no mean:
its pairs are drawn, and ranked again in every resample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from sentemb_core.errors import BadDataError

LEVEL = 0.95
RESAMPLES = 10_000
SAME = 1e-12  # a smaller difference of means is rounding
FEWEST = 6
"""Least number of units for a significant difference. With fewer, even a difference of one sign in
all units occurs by chance more than once in twenty (two-sided sign test), and the bootstrap of
values that hardly vary is overconfident."""

CELLS = 1 << 20  # counts of a mean in memory at once: 8 MB; more is slower
COUNTED = 1 << 16  # counts of a correlation in memory at once: small enough for the CPU cache


@dataclass(frozen=True)
class Interval:
    """A mean over queries and the central 95 % of its bootstrap distribution."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Interval):
    """A difference of paired means; `superiority` is the share of resamples above 0.

    A resample with a difference of 0 counts half.
    """

    superiority: float


def by_unit(
    values: Float64[np.ndarray, " queries"], units: Int64[np.ndarray, " queries"]
) -> Float64[np.ndarray, " units"]:
    """Return a value for each unit; their mean is that over the queries.

    Queries about one counterpart are one unit: an encoder that knows it answers all of them. As
    queries of their own, two equal encoders would often differ significantly.
    """
    places = np.unique(units, return_inverse=True)[1]
    sums = np.bincount(places, values)
    return sums * len(sums) / max(len(values), 1)


def confidence_interval(values: Float64[np.ndarray, " queries"], seed: int) -> Interval:
    """Return the mean of one metric's values with its interval."""
    return interval_of(float(values.mean()), resampled_means(values, seed))


def paired_difference(
    first: Float64[np.ndarray, " first"],
    second: Float64[np.ndarray, " second"],
    seed: int,
    level: float = LEVEL,
) -> Difference:
    """Return the mean of first - second over the queries, with its interval at this level.

    Raises:
        BadDataError: the sides have different numbers of queries.
    """
    if len(first) != len(second):
        raise BadDataError(
            f"A paired bootstrap needs one value per query from both sides; found {len(first)} and "
            f"{len(second)}. Score both encoders on the same split of the same pool."
        )
    gains = first - second
    means = resampled_means(gains, seed)
    return difference_of(float(gains.mean()), means, len(gains), level)


def interval_of(value: float, resampled: Float64[np.ndarray, " resamples"]) -> Interval:
    """Return a statistic with the central part of its bootstrap distribution."""
    return Interval(value, *_central(resampled))


def difference_of(
    value: float, resampled: Float64[np.ndarray, " resamples"], units: int, level: float = LEVEL
) -> Difference:
    """Return a difference of two paired statistics, from its bootstrap distribution.

    With fewer than `FEWEST` units the interval is extended to include 0.
    """
    equal = np.abs(resampled) < SAME
    superiority = float(((resampled > 0) & ~equal).mean() + equal.mean() / 2)
    low, high = _central(resampled, level)
    if units < FEWEST:
        low, high = min(low, 0.0), max(high, 0.0)
    return Difference(value, low, high, superiority)


def over_seeds(over_units: Interval, gains: Sequence[float], level: float = LEVEL) -> Interval:
    """Return an interval over units (at `LEVEL`) widened by the variance between seeds.

    Seeds with the same units differ only by their training. The variance of their mean is added to
    the units' variance. The quantile is Student's, with the degrees of freedom of such a sum
    (Satterthwaite 1946).

    Args:
        over_units: Interval of the mean over the seeds.
        gains: One a seed; a single seed widens nothing.
        level: Level of the returned interval.
    """
    from scipy.special import ndtri, stdtrit

    if len(gains) < 2:
        return over_units
    low, high = over_units.mean - over_units.low, over_units.high - over_units.mean
    of_units = (low + high) / (2 * ndtri((1 + LEVEL) / 2))
    of_training = np.std(gains, ddof=1) / np.sqrt(len(gains))
    variance = of_units**2 + of_training**2
    if not variance:
        return over_units
    freedom = variance**2 * (len(gains) - 1) / max(of_training**4, SAME * variance**2)
    reach = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance)
    share = low / (low + high) if low + high else 0.5  # keeps the asymmetry
    return Interval(
        over_units.mean,
        float(over_units.mean - 2 * share * reach),
        float(over_units.mean + 2 * (1 - share) * reach),
    )


def resampled_means(
    values: Float64[np.ndarray, " queries"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Return the means of `RESAMPLES` resamples of the same size.

    Values with a negative mean are drawn as their negatives, so comparing B with A mirrors the
    interval of comparing A with B.

    Raises:
        BadDataError: no value, or one that is not finite.
    """
    _require_finite(values)
    side = -1.0 if values.mean() < 0 else 1.0
    distinct, counts = np.unique(side * values, return_counts=True)
    rng = np.random.default_rng(seed)
    block = max(1, CELLS // len(distinct))
    sizes = [min(block, RESAMPLES - start) for start in range(0, RESAMPLES, block)]
    shares = counts / len(values)
    draws = (rng.multinomial(len(values), shares, size=size) @ distinct for size in sizes)
    return side * np.concatenate(list(draws)) / len(values)


def means_of_draws(
    values: Float64[np.ndarray, " queries"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Return as `resampled_means`, but with the draws of `resampled_spearman` for as many pairs.

    Slower, but measures on the same examples share their draws.

    Raises:
        BadDataError: no value, or one that is not finite.
    """
    _require_finite(values)
    drawn = (values @ counts for counts in _drawn_counts(len(values), seed))
    return np.concatenate(list(drawn)) / len(values)


def resampled_ratios(
    totals: Float64[np.ndarray, " groups"], sizes: Float64[np.ndarray, " groups"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Return the means of `RESAMPLES` resamples of whole groups, given their sums and sizes.

    Raises:
        BadDataError: no group, or a sum that is not finite.
    """
    _require_finite(totals)
    sums = np.stack([totals, sizes])
    drawn = np.concatenate([sums @ counts for counts in _drawn_counts(len(sizes), seed)], axis=1)
    return drawn[0] / drawn[1]


def resampled_spearman(
    columns: Float64[np.ndarray, "pairs columns"], gold: Float64[np.ndarray, " pairs"], seed: int
) -> Float64[np.ndarray, "resamples columns"]:
    """Return Spearman's correlation of each column with the gold scores in `RESAMPLES` resamples.

    All columns share the resamples, so their differences are paired. A resample in which one side
    is constant counts 0, as in `sts.spearman`.

    Raises:
        BadDataError: no pair, or a value that is not finite.
    """
    if len(gold) == 0 or not (np.isfinite(columns).all() and np.isfinite(gold).all()):
        raise BadDataError(
            f"A bootstrap needs a pair and finite values; found {len(gold)} pairs. Enlarge the set "
            "or check the encoder."
        )
    found = np.empty((RESAMPLES, columns.shape[1]))
    ties, *others = (_ties(values) for values in (gold, *columns.T))
    done = 0
    for counts in _drawn_counts(len(gold), seed):
        resamples = slice(done, done + counts.shape[1])
        places, spread = _centred_ranks(ties, counts)
        weighted = counts * places
        for number, other in enumerate(others):
            ranks, width = _centred_ranks(other, counts)
            lengths = np.sqrt(spread * width)
            products = np.einsum("pr,pr->r", weighted, ranks)
            found[resamples, number] = np.divide(
                products, lengths, out=np.zeros_like(products), where=lengths > 0
            )
        done = resamples.stop
    return found


def _require_finite(values: Float64[np.ndarray, " queries"]) -> None:
    if len(values) == 0 or not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise BadDataError(
            f"A bootstrap needs a query and finite values; found {len(values)} queries, {bad} of "
            "them not finite. Enlarge the split or check the metric."
        )


def _drawn_counts(n: int, seed: int) -> Iterator[Float64[np.ndarray, "pairs resamples"]]:
    """Yield how often each of n pairs occurs in each resample, in blocks of resamples.

    A row is a pair, so reordering pairs moves whole rows.
    """
    rng = np.random.default_rng(seed)
    block = max(1, COUNTED // n)
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        places = rng.integers(n, size=(size, n)) * size + np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=n * size)
        yield counts.reshape(n, size).astype(np.float64)


class _Ties(NamedTuple):
    """The ascending order of values, and its groups of equal values."""

    order: Int64[np.ndarray, " pairs"]
    last: Int64[np.ndarray, " groups"]
    group_of: Int64[np.ndarray, " pairs"]


def _ties(values: Float64[np.ndarray, " pairs"]) -> _Ties:
    _, group_of, members = np.unique(values, return_inverse=True, return_counts=True)
    return _Ties(np.argsort(values, kind="stable"), np.cumsum(members) - 1, group_of)


def _centred_ranks(
    ties: _Ties, counts: Float64[np.ndarray, "pairs resamples"]
) -> tuple[Float64[np.ndarray, "pairs resamples"], Float64[np.ndarray, " resamples"]]:
    """Return twice the centred ranks if value i occurs `counts[i, r]` times, and their squares.

    Equal values share their mean rank; doubled, all ranks are whole numbers.
    """
    ends = np.cumsum(counts[ties.order], axis=0)[ties.last]
    sizes = np.diff(ends, axis=0, prepend=0)
    ranks = 2 * ends - sizes - len(ties.order)
    return ranks[ties.group_of], np.einsum("gr,gr,gr->r", sizes, ranks, ranks)


def _central(means: Float64[np.ndarray, " resamples"], level: float = LEVEL) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
