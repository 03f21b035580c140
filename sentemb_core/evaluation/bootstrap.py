"""How sure a difference is: the bootstrap over queries (Efron 1979), percentile intervals.

Resampling n values with replacement is drawing how often each distinct value occurs, so one
multinomial draw over the distinct values replaces n draws: the same distribution, and a metric of
few values (a hit or a miss) costs next to nothing at any number of queries.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from sentemb_core.errors import BadDataError

RESAMPLES = 10_000
CELLS = 1 << 22  # counts held at once: 32 MB


@dataclass(frozen=True)
class Interval:
    """A mean over queries and the central `level` of its bootstrap distribution."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Interval):
    """Of two paired means; `superiority` is the share of resamples in which the first is larger.

    A resample in which both are equal counts half.
    """

    superiority: float


def confidence_interval(
    values: Float64[np.ndarray, " queries"], seed: int, level: float = 0.95
) -> Interval:
    """Of the mean of one metric's values."""
    low, high = _central(resampled_means(values, seed), level)
    return Interval(float(values.mean()), low, high)


def paired_difference(
    first: Float64[np.ndarray, " first"],
    second: Float64[np.ndarray, " second"],
    seed: int,
    level: float = 0.95,
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
    means = resampled_means(gains, seed)
    low, high = _central(means, level)
    superiority = float((means > 0).mean() + (means == 0).mean() / 2)
    return Difference(float(gains.mean()), low, high, superiority)


def resampled_means(
    values: Float64[np.ndarray, " queries"], seed: int
) -> Float64[np.ndarray, " resamples"]:
    """Means of `RESAMPLES` resamples of the same size.

    Raises:
        BadDataError: no value, or one that is not finite.
    """
    if len(values) == 0 or not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise BadDataError(
            f"A bootstrap needs at least one query and finite values, found {len(values)} queries "
            f"of which {bad} are not finite: enlarge the split or check the metric."
        )
    distinct, counts = np.unique(values, return_counts=True)
    rng = np.random.default_rng(seed)
    block = max(1, CELLS // len(distinct))
    sizes = [min(block, RESAMPLES - start) for start in range(0, RESAMPLES, block)]
    shares = counts / len(values)
    draws = (rng.multinomial(len(values), shares, size=size) @ distinct for size in sizes)
    return np.concatenate(list(draws)) / len(values)


def _central(means: Float64[np.ndarray, " resamples"], level: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
