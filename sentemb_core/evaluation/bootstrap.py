"""How sure a difference is: the bootstrap over queries (Efron 1979), percentile intervals.

Resampling n values with replacement is drawing how often each distinct value occurs, so one
multinomial draw over the distinct values replaces n draws: the same distribution, and a metric of
few values (a hit or a miss) costs next to nothing at any number of queries. A correlation is not a
mean: there pairs are drawn, and ranked anew in every resample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from sentemb_core.errors import BadDataError

LEVEL = 0.95
RESAMPLES = 10_000
SAME = 1e-12  # two means that differ by less differ by rounding
FEWEST = 6
"""Units that can tell two means apart: of fewer even all on one side come by chance more than once
in twenty (a sign test, two-sided), and a bootstrap of what hardly varies knows no doubt."""

CELLS = 1 << 20  # counts of a mean held at once: 8 MB; more is slower
COUNTED = 1 << 16  # counts of a correlation held at once: they are reordered, best in the cache


@dataclass(frozen=True)
class Interval:
    """A mean over queries and the central 95 % of its bootstrap distribution."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Interval):
    """Of two paired means; `superiority` is the share of resamples in which the first is larger.

    A resample in which both are equal counts half.
    """

    superiority: float


def confidence_interval(values: Float64[np.ndarray, " queries"], seed: int) -> Interval:
    """Of the mean of one metric's values."""
    return interval_of(float(values.mean()), resampled_means(values, seed))


def paired_difference(
    first: Float64[np.ndarray, " first"],
    second: Float64[np.ndarray, " second"],
    seed: int,
) -> Difference:
    """Mean of first - second, query by query.

    Raises:
        BadDataError: the two were not measured on the same number of queries.
    """
    if len(first) != len(second):
        raise BadDataError(
            f"A paired bootstrap needs one value a query from both sides, found {len(first)} and "
            f"{len(second)}: score both encoders on the same split of the same benchmark."
        )
    gains = first - second
    return difference_of(float(gains.mean()), resampled_means(gains, seed), len(gains))


def interval_of(value: float, resampled: Float64[np.ndarray, " resamples"]) -> Interval:
    """A statistic and the central part of its bootstrap distribution."""
    return Interval(value, *_central(resampled))


def difference_of(
    value: float, resampled: Float64[np.ndarray, " resamples"], units: int
) -> Difference:
    """A difference of two paired statistics, from its bootstrap distribution.

    The interval of fewer than `FEWEST` units holds 0.
    """
    equal = np.abs(resampled) < SAME
    superiority = float(((resampled > 0) & ~equal).mean() + equal.mean() / 2)
    low, high = _central(resampled)
    if units < FEWEST:
        low, high = min(low, 0.0), max(high, 0.0)
    return Difference(value, low, high, superiority)


def over_seeds(over_units: Interval, gains: Sequence[float], level: float = LEVEL) -> Interval:
    """An interval over units (at `LEVEL`) widened by what training again would change.

    Seeds judged by the same units differ by their training alone. That variance, of the mean of
    the seeds, joins the units' own, and the quantile is Student's with the degrees of freedom of
    such a sum (Satterthwaite 1946): three seeds that disagree much are worth two of them.

    Args:
        over_units: Of the mean over the seeds.
        gains: Seed by seed; one alone tells nothing of training, and widens nothing.
        level: Of the interval returned.
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
    share = low / (low + high) if low + high else 0.5  # as lopsided as it was
    return Interval(
        over_units.mean,
        float(over_units.mean - 2 * share * reach),
        float(over_units.mean + 2 * (1 - share) * reach),
    )


def resampled_means(
    values: Float64[np.ndarray, " queries"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Means of `RESAMPLES` resamples of the same size.

    Values that lean below 0 are drawn as their negatives: who compares B with A, and not A with B,
    sees the same resamples, and the mirrored interval.

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
    """As `resampled_means`, of the very draws in which `resampled_spearman` sees as many pairs.

    It costs a number for every value and resample, and ties what is measured on the same examples.

    Raises:
        BadDataError: no value, or one that is not finite.
    """
    _require_finite(values)
    drawn = (values @ counts for counts in _drawn_counts(len(values), seed))
    return np.concatenate(list(drawn)) / len(values)


def resampled_ratios(
    totals: Float64[np.ndarray, " groups"], sizes: Float64[np.ndarray, " groups"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Means of `RESAMPLES` resamples of whole groups, of which sums and sizes are given.

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
    """Spearman's correlation of each column with the gold scores in `RESAMPLES` resamples of pairs.

    All columns see the same resamples, so that their differences are paired. A resample in which
    one side does not vary orders nothing and counts 0, as in `sts.spearman`.

    Raises:
        BadDataError: no pair, or a value that is not finite.
    """
    if len(gold) == 0 or not (np.isfinite(columns).all() and np.isfinite(gold).all()):
        raise BadDataError(
            f"A bootstrap needs at least one pair and finite values, found {len(gold)} pairs: "
            "enlarge the set or check the encoder."
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
    """A mean can be drawn of them.

    Raises:
        BadDataError: no value, or one that is not finite.
    """
    if len(values) == 0 or not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise BadDataError(
            f"A bootstrap needs at least one query and finite values, found {len(values)} queries "
            f"of which {bad} are not finite: enlarge the split or check the metric."
        )


def _drawn_counts(n: int, seed: int) -> Iterator[Float64[np.ndarray, "pairs resamples"]]:
    """How often each of n pairs occurs in each resample, block by block.

    A row is a pair, so that putting pairs in another order moves whole rows.
    """
    rng = np.random.default_rng(seed)
    block = max(1, COUNTED // n)
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        places = rng.integers(n, size=(size, n)) * size + np.arange(size)[:, None]
        counts = np.bincount(places.ravel(), minlength=n * size)
        yield counts.reshape(n, size).astype(np.float64)


class _Ties(NamedTuple):
    """Values in ascending order, and the groups of equal ones in it."""

    order: Int64[np.ndarray, " pairs"]
    last: Int64[np.ndarray, " groups"]
    group_of: Int64[np.ndarray, " pairs"]


def _ties(values: Float64[np.ndarray, " pairs"]) -> _Ties:
    _, group_of, members = np.unique(values, return_inverse=True, return_counts=True)
    return _Ties(np.argsort(values, kind="stable"), np.cumsum(members) - 1, group_of)


def _centred_ranks(
    ties: _Ties, counts: Float64[np.ndarray, "pairs resamples"]
) -> tuple[Float64[np.ndarray, "pairs resamples"], Float64[np.ndarray, " resamples"]]:
    """Twice the ranks less their mean where value i occurs `counts[i, r]` times, and their squares.

    Equal values share the middle of the places that they take together; doubled, all are whole.
    """
    ends = np.cumsum(counts[ties.order], axis=0)[ties.last]
    sizes = np.diff(ends, axis=0, prepend=0)
    ranks = 2 * ends - sizes - len(ties.order)
    return ranks[ties.group_of], np.einsum("gr,gr,gr->r", sizes, ranks, ranks)


def _central(means: Float64[np.ndarray, " resamples"]) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
