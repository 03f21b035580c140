"""Results of an experiment's arms, and the verdict on each claim of its paper."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Literal

from sentemb_core.config.experiments import (
    CASE,
    LOSS,
    OF_TRAINING,
    SECONDS,
    TITLE,
    Claim,
    Column,
    Experiment,
)
from sentemb_core.evaluation.bootstrap import FEWEST as FEWEST_UNITS
from sentemb_core.evaluation.bootstrap import LEVEL, SAME, Interval, over_seeds
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.artifacts import artifact_path, read_json, save_json
from tasks.benchmark import result_of
from tasks.results import Pivot, ResultRow, grouped
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.evaluation.task_result import TaskResult

Verdict = Literal["holds", "does not hold", "not decided", "not run"]

FEWEST_SEEDS = 2
"""A claim is decided from this number of seeds on."""

CLAIMS = Pivot(
    rows=("task", "claim", "source", "verdict", "system", "baseline", "seeds above"),
    columns=("metric",),
    corner="experiment",
    digits={"difference of losses": 5},
)
"""Layout of a table of claims."""


class ArmResult(Value):
    """One arm in one column under one seed: its result, or its error.

    Attributes:
        less: Labels or documents that the corpus has, if the arm asked for more.
        notes: What a reader must know about the training.
        seconds: Cost of all trainings of the arm, measured when they were computed.
        log: Training log of the last training.
    """

    arm: str
    column: str
    seed: int
    result: ArtifactRef | None = None
    less: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    log: ArtifactRef | None = None
    error: str = ""


Cells = Mapping[tuple[str, str], list[ArmResult]]
"""Arm and column -> the results without error, by seed."""


def cells_of(results: Sequence[ArmResult]) -> Cells:
    """Return the results without error by arm and column."""
    by_seed = sorted(results, key=lambda result: result.seed)
    return grouped(((one.arm, one.column), one) for one in by_seed if not one.error)


def value_of(result: ArmResult, column: Column) -> float:
    """Return a share, a correlation, seconds, or the final loss of the last training."""
    if column.judge == SECONDS:
        return result.seconds
    if column.judge == LOSS:
        from sentemb_core.training.state import final_loss

        assert result.log is not None, "an arm without a training has no loss"
        return final_loss(artifact_path(result.log))
    scores = task_result(result, column)
    return scores.measures[column.measure or scores.main]


def task_result(result: ArmResult, column: Column) -> "TaskResult":
    """Return a result of the suite, or of the test split of a validation pool."""
    from sentemb_core.evaluation.validation_scores import title_result

    if column.judge == TITLE:
        return title_result(artifact_path(reference(result)), column.measure or "R@5")
    return result_of(reference(result))


def reference(result: ArmResult) -> ArtifactRef:
    assert result.result is not None, "seconds have no units"
    return result.result


class PairwiseResult(Value):
    """Difference of the arm that a claim calls better and one other arm: mean over columns, seeds.

    Attributes:
        than: The other arm.
        low: Lower end of the 95 % interval, over units and trainings.
        high: Upper end of the 95 % interval.
        ceiling: Upper end at which all other arms together err once in twenty (Bonferroni).
        better_in: Seeds in which the difference is above the negative margin.
        equal_in: Seeds in which it equals the negative margin.
        units: Queries, pairs or examples behind the interval; None: it is the range over seeds.
        unkept: Units exist, but their single values of this measure were not kept.
        reversed: Lower is better; the difference is the other arm minus the better arm.
    """

    than: str
    difference: float
    low: float
    high: float
    ceiling: float
    seeds: int
    better_in: int
    equal_in: int = 0
    margin: float = 0.0
    units: int | None = None
    unkept: bool = False
    reversed: bool = False
    metric: str = "difference"

    @property
    def undecidable(self) -> str:
        """Why no verdict is possible; empty if one is."""
        if self.seeds < FEWEST_SEEDS:
            return "one seed decides nothing"
        if self.unkept:
            return "the single values of this measure were not kept"
        if self.units is not None and self.units < FEWEST_UNITS:
            return f"{self.units} units are too few"
        return ""

    @property
    def verdict(self) -> Verdict:
        """Decided if the interval excludes the negative margin and all seeds agree.

        A seed in which both arms are equal agrees with neither side.
        """
        if self.undecidable:
            return "not decided"
        if self.low > -self.margin and self.better_in == self.seeds:
            return "holds"
        if self.ceiling < -self.margin and self.better_in == self.equal_in == 0:
            return "does not hold"
        return "not decided"


class ClaimResult(Value):
    """A claim, its pairwise differences, and the arms without a number to compare."""

    text: str
    better: str
    columns: list[str]
    rivals: list[PairwiseResult]
    missing: list[str]
    source: str = ""

    @property
    def verdict(self) -> Verdict:
        """The claim holds if every difference holds; one difference against it is enough."""
        decided = self.deciding.verdict if self.deciding else "not run"
        return "not run" if self.missing and decided != "does not hold" else decided

    @property
    def deciding(self) -> PairwiseResult | None:
        """The difference that the verdict depends on; among several the smallest."""
        order = ("does not hold", "not decided", "holds")
        return min(
            self.rivals, key=lambda one: (order.index(one.verdict), one.difference), default=None
        )

    def row(self, experiment: str) -> ResultRow:
        """Return the deciding difference and the verdict as a row of the long table."""
        factors = {"claim": self.text, "source": self.source, "verdict": self.verdict}
        factors = {name: value for name, value in factors.items() if value}
        notes = [f"not compared: {', '.join(self.missing)}"] if self.missing else []
        one = self.deciding
        if one is None:
            return ResultRow(
                system=self.better, task=experiment, metric="difference", factors=factors,
                note="; ".join(notes),
            )  # fmt: skip
        factors["seeds above"] = f"{one.better_in} of {one.seeds}"
        factors["rivals"] = str(len(self.rivals))
        if one.margin:
            factors["margin"] = f"{-one.margin:+.3f}"
        if one.equal_in:
            factors["seeds equal"] = str(one.equal_in)
        if one.units is None:
            factors["interval"] = "range over the seeds"
        sides = (one.than, self.better) if one.reversed else (self.better, one.than)
        return ResultRow(
            system=sides[0], baseline=sides[1], task=experiment, metric=one.metric,
            value=one.difference, low=one.low, high=one.high, units=one.units, factors=factors,
            note="; ".join(filter(None, [one.undecidable, *notes])),
        )  # fmt: skip


def claim_result(claim: Claim, experiment: Experiment, cells: Cells) -> ClaimResult:
    """Compare the arm that the claim calls better with each arm that the claim puts below it."""
    columns = experiment.judged
    if claim.columns:
        columns = [one for one in experiment.columns if one.label in claim.columns]
    found = {arm: paired(claim.better, arm, columns, cells) for arm in claim.than}
    return ClaimResult(
        text=claim.text,
        source=claim.source,
        better=claim.better,
        columns=[one.label for one in columns],
        rivals=[
            pairwise_result(arm, pairs, claim.margin, of=len(found))
            for arm, pairs in found.items()
            if pairs
        ],
        missing=[arm for arm, pairs in found.items() if not pairs],
    )


Pairs = Mapping[int, list[tuple[Column, ArmResult, ArmResult]]]
"""Seed -> the results of two arms, column by column."""


def paired(better: str, than: str, columns: Sequence[Column], cells: Cells) -> Pairs:
    """Return the seeds under which both arms have a number in every column."""
    found = [
        (column, by_seed(better, column, cells), by_seed(than, column, cells)) for column in columns
    ]
    seeds = [one.keys() & other.keys() for _, one, other in found]
    return {
        seed: [(column, one[seed], other[seed]) for column, one, other in found]
        for seed in sorted(set[int]().union(*seeds).intersection(*seeds))
    }


def by_seed(arm: str, column: Column, cells: Cells) -> Mapping[int, ArmResult]:
    return {one.seed: one for one in cells.get((arm, column.label), [])}


def pairwise_result(than: str, pairs: Pairs, margin: float, of: int) -> PairwiseResult:
    """Return the mean difference and its interval, over units and, from two seeds on, trainings.

    Seconds and losses have no units: their interval is the range over the seeds. The same holds for
    measures beside the main one, whose single values are not kept. Appendix D counts as one unit:
    its pairs of titles move together when two clusters merge.

    Args:
        than: The other arm.
        pairs: Results of both arms.
        margin: By how much the better arm may fall short.
        of: Number of arms that the claim puts below the better one.
    """
    first = next(iter(pairs.values()))
    lower_is_better = first[0][0].judge in OF_TRAINING
    gains = [
        (-1 if lower_is_better else 1)
        * mean(value_of(one, column) - value_of(other, column) for column, one, other in row)
        for row in pairs.values()
    ]
    interval: Json = {
        "low": min(gains),
        "high": max(gains),
        "ceiling": max(gains),
        "unkept": not lower_is_better,
    }
    if all(has_units(one, column) for column, one, _ in first):
        of_units = read_json(claim_interval(save_contests(contests(pairs))), "interval")
        one_case = all(column.judge == CASE for column, _, _ in first)
        interval = bounds(gains, of_units, of) | {"units": 1 if one_case else of_units["units"]}
    return PairwiseResult(
        than=than,
        difference=mean(gains),
        **interval,
        seeds=len(gains),
        better_in=sum(gain + margin > SAME for gain in gains),
        equal_in=sum(abs(gain + margin) <= SAME for gain in gains),
        margin=margin,
        reversed=lower_is_better,
        metric=f"difference of {'losses' if first[0][0].judge == LOSS else 'seconds'}"
        if lower_is_better
        else "difference",
    )


def bounds(gains: Sequence[float], of_units: Json, of: int) -> Json:
    """Widen the interval over units by the variance over seeds; one seed leaves it as it is."""
    units = Interval(mean(gains), of_units["low"], of_units["high"])
    both, corrected = (over_seeds(units, gains, level) for level in (LEVEL, 1 - (1 - LEVEL) / of))
    return {"low": both.low, "high": both.high, "ceiling": corrected.high}


def has_units(result: ArmResult, column: Column) -> bool:
    """Whether the single values behind the column's measure are kept."""
    if column.judge in OF_TRAINING:
        return False
    return column.measure in (None, task_result(result, column).main)


class Contest(Value):
    """Pairs of results of two arms, all on the same units."""

    judge: str
    measure: str
    pairs: list[tuple[ArtifactRef, ArtifactRef]]


def contests(pairs: Pairs) -> list[Contest]:
    """Group the pairs by their units: a judge's seeds share them, each corpus has its own pool."""
    found: dict[tuple[str, str, str], list[tuple[ArtifactRef, ArtifactRef]]] = {}
    for row in pairs.values():
        for column, one, other in row:
            measure = task_result(one, column).main
            pool = column.corpus if column.judge == TITLE else ""
            results = (reference(one), reference(other))
            found.setdefault((column.judge, pool, measure), []).append(results)
    return [
        Contest(judge=judge, measure=measure, pairs=results)
        for (judge, _, measure), results in found.items()
    ]


def save_contests(found: Sequence[Contest]) -> ArtifactRef:
    """Save them as an artifact: a record holds some hundred references, a claim may need more."""
    return save_json("contests", {"contests": [one.model_dump(mode="json") for one in found]})


@stage("claim_interval", version=3)
def claim_interval(contests: ArtifactRef) -> ArtifactRef:
    """Compute the 95 % interval of two arms' mean difference, over the units of all columns.

    Args:
        contests: Artifact of `save_contests`.
    """
    from sentemb_core.evaluation.comparison import seeds_interval, units_in
    from sentemb_core.evaluation.task_result import TaskResult, read_result
    from sentemb_core.evaluation.validation_scores import title_result

    def result(ref: ArtifactRef, contest: Contest) -> TaskResult:
        if contest.judge == TITLE:
            return title_result(artifact_path(ref), contest.measure)
        return read_result(artifact_path(ref))

    given = [Contest.model_validate(one) for one in read_json(contests, "contests")["contests"]]
    tasks = [
        [(result(one, contest), result(other, contest)) for one, other in contest.pairs]
        for contest in given
    ]
    found = seeds_interval(tasks)
    return save_json("interval", {"low": found.low, "high": found.high, "units": units_in(tasks)})
