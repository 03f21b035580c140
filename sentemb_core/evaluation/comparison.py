"""How sure a task's number is, and which of two encoders is better: bootstraps over its units."""

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
"""Of all bootstraps: the same results give the same intervals everywhere."""

Verdict = Literal["first", "second", "undecided"]


class Comparison(Value):
    """Two encoders on one task, or on the average of several, by the tasks' main measure.

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
    def verdict(self) -> Verdict:
        """Who is better where the interval leaves out 0."""
        return "first" if self.low > 0 else "second" if self.high < 0 else "undecided"


def interval(result: TaskResult) -> Interval:
    """The main measure with its 95 % interval."""
    return interval_of(result.value, _resampled(result))


def comparison(first: TaskResult, second: TaskResult) -> Comparison:
    """The paired difference of two encoders on one task.

    Raises:
        BadDataError: they were not measured on the same units by the same measure.
    """
    units = len(first.units)
    resampled = _resampled_gains([(first, second)], SEED)
    gain = difference_of(first.value - second.value, resampled, units)
    return _comparison(first.task, first.main, first.value, second.value, gain, units)


def average_comparison(name: str, results: Sequence[tuple[TaskResult, TaskResult]]) -> Comparison:
    """The difference of the plain averages over tasks, whose units are drawn task by task.

    Tasks of as many units share their draws, as in `seeds_interval`. The interval tells what other
    units of the same tasks would give, not other tasks.
    """
    firsts, seconds = (float(np.mean([pair[side].value for pair in results])) for side in range(2))
    gains = _gains_of_tasks([[pair] for pair in results])
    units = sum(len(first.units) for first, _ in results)
    gain = difference_of(firsts - seconds, np.mean(gains, axis=0), units)
    return _comparison(name, "average", firsts, seconds, gain, units)


def seeds_interval(tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]]) -> Difference:
    """The mean difference of two ways to train, and its 95 % interval.

    All pairs of a task are of the same units and share every draw of them; tasks draw by
    themselves, but those of as many units share their draws: some are of the same examples
    (STS-B's pairs by cosine and by regression), which count once, and others are not tied by it.
    Sets that share a part of their examples (STS-B and STS12 to 16) are drawn as if they shared
    none. So the interval is of other units, not of other seeds: how many seeds agree has to be
    told beside it.

    Args:
        tasks: Task by task, its pairs of results: one a seed, and one a corpus to train on where
            several are judged by the task.

    Raises:
        BadDataError: pairs of a task were not measured on the same units by the same measure.
    """
    gains = _gains_of_tasks(tasks)
    resampled = np.average(gains, axis=0, weights=[len(pairs) for pairs in tasks])
    differences = [one.value - other.value for pairs in tasks for one, other in pairs]
    return difference_of(float(np.mean(differences)), resampled, units_in(tasks))


def units_in(tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]]) -> int:
    """Of all tasks; the pairs of one share theirs."""
    return sum(len(first.units) for ((first, _), *_) in tasks)


def _comparison(
    task: str, measure: str, first: float, second: float, gain: Difference, units: int
) -> Comparison:
    return Comparison(
        task=task,
        measure=measure,
        first=first,
        second=second,
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
        superiority=gain.superiority,
        units=units,
    )


def _resampled(result: TaskResult) -> Float64[np.ndarray, " resamples"]:
    match result.statistic:
        case "mean":
            return resampled_means(result.units[:, 0], SEED)
        case "ratio":
            return resampled_ratios(result.units[:, 0], result.units[:, 1], SEED)
        case "spearman":
            return resampled_spearman(result.units[:, :1], result.units[:, 1], SEED)[:, 0]


def _gains_of_tasks(
    tasks: Sequence[Sequence[tuple[TaskResult, TaskResult]]],
) -> list[Float64[np.ndarray, " resamples"]]:
    """Task by task; tasks of as many units share their draws."""
    sizes = [len(first.units) for ((first, _), *_) in tasks]
    sharing = Counter(sizes)
    return [
        _resampled_gains(pairs, SEED + sizes.index(size), shared=sharing[size] > 1)
        for pairs, size in zip(tasks, sizes, strict=True)
    ]


def _resampled_gains(
    pairs: Sequence[tuple[TaskResult, TaskResult]], seed: int, *, shared: bool = False
) -> Float64[np.ndarray, " resamples"]:
    """First less second in the mean of pairs on the same units, which share the draws."""
    firsts, seconds = zip(*pairs, strict=True)
    results = [*firsts, *seconds]
    for result in results:
        _require_paired(results[0], result)
    values = np.stack([result.units[:, 0] for result in results], axis=1)
    signs = np.repeat([1.0, -1.0], len(pairs))
    gains, beside = values @ signs / len(pairs), results[0].units[:, -1]
    match pairs[0][0].statistic:
        case "mean":
            return means_of_draws(gains, seed) if shared else resampled_means(gains, seed)
        case "ratio":
            return resampled_ratios(gains, beside, seed)
        case "spearman":
            return resampled_spearman(values, beside, seed) @ signs / len(pairs)


def _require_paired(first: TaskResult, second: TaskResult) -> None:
    told = [(one.task, one.main, one.statistic, one.units.shape) for one in (first, second)]
    same_gold = first.statistic == "mean" or np.array_equal(first.units[:, 1:], second.units[:, 1:])
    if told[0] != told[1] or not same_gold:
        raise BadDataError(
            f"A difference is of two encoders on the same units of one task, found {told[0]} and "
            f"{told[1]}{'' if same_gold else ' with other gold scores'}: score both on the same "
            "files."
        )
