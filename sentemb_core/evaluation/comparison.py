"""Intervals of task results and of differences between encoders, by bootstraps over the units."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64

from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.bootstrap import (
    Difference,
    Interval,
    difference_of,
    interval_of,
    means_of_draws,
    resampled_means,
    resampled_ratios,
    resampled_spearman,
)
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.types import Value

SEED = 0
"""Seed of all bootstraps: equal results give equal intervals everywhere."""

Winner = Literal["first", "second", "undecided"]


class Comparison(Value):
    """Two encoders on one task, or on the average of several tasks, by the main measure.

    The difference is first - second, low to high its 95 % interval.
    """

    task: str
    measure: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    superiority: float
    units: int

    @property
    def winner(self) -> Winner:
        """The better encoder if the interval excludes 0."""
        return "first" if self.low > 0 else "second" if self.high < 0 else "undecided"


def interval(result: TaskResult) -> Interval:
    """Return the main measure with its 95 % interval."""
    return interval_of(result.value, _resampled([result]))


def comparison(first: TaskResult, second: TaskResult) -> Comparison:
    """Return the paired difference of two encoders on one task, as `average_comparison`."""
    return average_comparison(first.task, [(first, second)])


def average_comparison(name: str, results: Sequence[tuple[TaskResult, TaskResult]]) -> Comparison:
    """Return the difference of the plain averages over tasks.

    Units are drawn task by task; tasks with equally many units share their draws, as in
    `seeds_interval`. The interval is for other units of the same tasks, not for other tasks.

    Raises:
        BadDataError: the results of a task differ in units or measure.
    """
    first, second = (float(np.mean([pair[side].value for pair in results])) for side in range(2))
    tasks = [[pair] for pair in results]
    units = units_in(tasks)
    gain = difference_of(first - second, np.mean(_gains_of_tasks(tasks), axis=0), units)
    return Comparison(
        task=name,
        measure=results[0][0].main if len(results) == 1 else "average",
        first=first,
        second=second,
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
        superiority=gain.superiority,
        units=units,
    )


def seeds_interval(tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]]) -> Difference:
    """Return the mean difference of two training methods with its 95 % interval.

    All pairs of a task have the same units and share every draw. Tasks are drawn independently,
    except that tasks with equally many units share their draws. Some of these have the same
    examples (STS-B by cosine and by regression), which then count once; for the others sharing
    changes nothing. Sets with common examples (STS-B and STS12 to 16) are drawn as if they had
    none. The interval covers other units, not other seeds: report the number of agreeing seeds
    beside it.

    Args:
        tasks: For each task its pairs of results, one a seed (and one a training corpus, if
            several corpora share the task).

    Raises:
        BadDataError: pairs of a task differ in units or measure.
    """
    gains = _gains_of_tasks(tasks)
    resampled = np.average(gains, axis=0, weights=[len(pairs) for pairs in tasks])
    differences = [one.value - other.value for pairs in tasks for one, other in pairs]
    return difference_of(float(np.mean(differences)), resampled, units_in(tasks))


def units_in(tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]]) -> int:
    """Return the number of units of all tasks; the pairs of a task share theirs."""
    return sum(len(first.units) for ((first, _), *_) in tasks)


def _gains_of_tasks(
    tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]],
) -> list[Float64[np.ndarray, " resamples"]]:
    """Return resampled differences of each task; tasks with equally many units share draws."""
    sizes = [len(first.units) for ((first, _), *_) in tasks]
    sharing = Counter(sizes)
    return [
        _resampled(firsts, seconds, seed=SEED + sizes.index(size), shared=sharing[size] > 1)
        for pairs, size in zip(tasks, sizes, strict=True)
        for firsts, seconds in [zip(*pairs, strict=True)]
    ]


def _resampled(
    firsts: Sequence[TaskResult],
    seconds: Sequence[TaskResult] = (),
    *,
    seed: int = SEED,
    shared: bool = False,
) -> Float64[np.ndarray, " resamples"]:
    """Return the resampled mean of the first results less that of as many second ones.

    All have the same units and share the draws; `shared`: with other tasks of as many units, too.
    """
    results = [*firsts, *seconds]
    for result in results:
        _require_paired(results[0], result)
    values = np.stack([result.units[:, 0] for result in results], axis=1)
    signs = np.repeat([1.0, -1.0], [len(firsts), len(seconds)])
    means, beside = values @ signs / len(firsts), results[0].units[:, -1]
    match results[0].statistic:
        case "mean":
            return means_of_draws(means, seed) if shared else resampled_means(means, seed)
        case "ratio":
            return resampled_ratios(means, beside, seed)
        case "spearman":
            return resampled_spearman(values, beside, seed) @ signs / len(firsts)


def _require_paired(first: TaskResult, second: TaskResult) -> None:
    one, other = ((r.task, r.main, r.statistic, r.units.shape) for r in (first, second))
    same_gold = first.statistic == "mean" or np.array_equal(first.units[:, 1:], second.units[:, 1:])
    if one != other or not same_gold:
        raise BadDataError(
            f"A difference needs two results on the same units of one task; found {one} and "
            f"{other}{'' if same_gold else ' with other gold scores'}. Score both encoders on the "
            "same files."
        )
