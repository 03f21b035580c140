"""What becomes of a paper's claims: holds, does not hold, or not decided, with the differences."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Literal

from sentemb_core.config.experiments import (
    CASE,
    LOSS,
    OF_TRAINING,
    TITLE,
    Claim,
    Column,
    Experiment,
)
from sentemb_core.evaluation.bootstrap import FEWEST as FEWEST_UNITS
from sentemb_core.evaluation.bootstrap import LEVEL, SAME, Interval, over_seeds
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.artifact_files import artifact_path, read_json, save_json
from tasks.stage import stage
from tasks.tables.findings import ArmResult, Cells, result_in, value_of

Fate = Literal["holds", "does not hold", "not decided", "not run"]


FEWEST = 2
"""Seeds from which on they can agree."""

DIGITS = {LOSS: 5}
"""Behind the point, of a judge whose numbers three do not tell apart."""


class PairwiseResult(Value):
    """The arm that a claim calls better, less one of the others: means over columns and seeds.

    `low` to `high`: 95 %, of other queries and other trainings.
    `ceiling`: the upper end at which all rivals of the claim together err once in twenty, since
    any of them may decide against it (Bonferroni).
    `units`: queries, pairs or examples that the interval is over; None: for want of them it is the
    range over the seeds. `unkept`: there are some, but their own values of the measure were not
    kept.
    `reversed`: of seconds and losses the lower are better, and the difference is the other's less
    the better's.
    `digits`: behind the point, where a person reads it: losses may all lie below .001.
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
    digits: int = 3

    @property
    def over_seeds(self) -> bool:
        """Whether the interval is their range."""
        return self.units is None

    @property
    def undecidable(self) -> str:
        """Why nothing can be decided, if so: what there is too little of."""
        if self.seeds < FEWEST:
            return "one seed decides nothing"
        if self.unkept:
            return "without each query's own value nothing can be decided"
        if self.units is not None and self.units < FEWEST_UNITS:
            return f"of {self.units} queries, pairs or examples nothing can be decided"
        return ""

    @property
    def fate(self) -> Fate:
        """Decided where the interval leaves out 0 and all seeds agree, if there is enough of both.

        A seed in which both are equal agrees with nobody. With a margin, its negative takes the
        place of 0.
        """
        if self.undecidable:
            return "not decided"
        if self.low > -self.margin and self.better_in == self.seeds:
            return "holds"
        if self.ceiling < -self.margin and self.better_in == self.equal_in == 0:
            return "does not hold"
        return "not decided"


class ClaimResult(Value):
    """A claim, the differences that it rests on, and the arms that it could not be held against."""

    text: str
    better: str
    columns: list[str]
    rivals: list[PairwiseResult]
    missing: list[str]

    @property
    def fate(self) -> Fate:
        """All others have to fall behind; one that is ahead is enough against the claim."""
        decided = self.deciding.fate if self.deciding else "not run"
        return "not run" if self.missing and decided != "does not hold" else decided

    @property
    def deciding(self) -> PairwiseResult | None:
        """The rival that the fate hangs on; of several the one that comes closest."""
        order = ("does not hold", "not decided", "holds")
        return min(
            self.rivals, key=lambda one: (order.index(one.fate), one.difference), default=None
        )


class Contest(Value):
    """Results of two arms, pair by pair, that are all of the same units."""

    judge: str
    measure: str
    pairs: list[tuple[ArtifactRef, ArtifactRef]]


def fated(experiment: Experiment, cells: Cells) -> list[ClaimResult]:
    """Every claim of an experiment."""
    return [fate_of(claim, experiment, cells) for claim in experiment.claims]


def fate_of(claim: Claim, experiment: Experiment, cells: Cells) -> ClaimResult:
    """The claim against each of the arms that it puts below."""
    columns = [
        one
        for one in experiment.columns
        if (one.label in claim.columns if claim.columns else one.judge not in OF_TRAINING)
    ]
    told = {arm: paired(claim.better, arm, columns, cells) for arm in claim.than}
    return ClaimResult(
        text=claim.text,
        better=claim.better,
        columns=[one.label for one in columns],
        rivals=[
            rival(arm, pairs, claim.margin, of=len(told)) for arm, pairs in told.items() if pairs
        ],
        missing=[arm for arm, pairs in told.items() if not pairs],
    )


Pairs = Mapping[int, list[tuple[Column, ArmResult, ArmResult]]]
"""Seed -> column by column what both arms have."""


def paired(better: str, than: str, columns: Sequence[Column], cells: Cells) -> Pairs:
    """The seeds under which both arms have a number in every column; none without a column."""
    found = [
        (column, by_seed(better, column, cells), by_seed(than, column, cells)) for column in columns
    ]
    seeds = [one.keys() & other.keys() for _, one, other in found]
    return {
        seed: [(column, one[seed], other[seed]) for column, one, other in found]
        for seed in sorted(set[int]().union(*seeds).intersection(*seeds))
    }


def by_seed(arm: str, column: Column, cells: Cells) -> Mapping[int, ArmResult]:
    """What an arm has in a column."""
    return {one.seed: one for one in cells.get((arm, column.label), [])}


def rival(than: str, pairs: Pairs, margin: float, of: int) -> PairwiseResult:
    """The difference, and in how many seeds it is above 0, or above the margin's negative.

    The interval is of other queries and, from two seeds on, of other trainings. Seconds and losses,
    of which the lower are better, have no units: there it is the range over the seeds. So it is of
    a measure beside the main one, whose single values were not kept; seeds are too few to decide of
    those. Appendix D is one case: its pairs of titles move together, where two clusters become one.
    """
    first = next(iter(pairs.values()))
    timed = first[0][0].judge in OF_TRAINING
    gains = [
        (-1 if timed else 1)
        * mean(value_of(one, column) - value_of(other, column) for column, one, other in row)
        for row in pairs.values()
    ]
    interval: Json = {
        "low": min(gains), "high": max(gains), "ceiling": max(gains), "unkept": not timed,
    }  # fmt: skip
    if all(has_units(one, column) for column, one, _ in first):
        told = read_json(claim_interval(kept_contests(contests(pairs))), "interval")
        one_case = all(column.judge == CASE for column, _, _ in first)
        interval = bounds(gains, told, of) | {"units": 1 if one_case else told["units"]}
    return PairwiseResult(
        than=than,
        difference=mean(gains),
        **interval,
        seeds=len(gains),
        better_in=sum(gain + margin > SAME for gain in gains),
        equal_in=sum(abs(gain + margin) <= SAME for gain in gains),
        margin=margin,
        reversed=timed,
        digits=DIGITS.get(first[0][0].judge, 3),
    )


def bounds(gains: Sequence[float], told: Json, of: int) -> Json:
    """The `claim_interval` of a `PairwiseResult`, one `of` several, widened by the training noise.

    Of one seed, which decides nothing, it stays as told.
    """
    units = Interval(mean(gains), told["low"], told["high"])
    both, surer = (over_seeds(units, gains, level) for level in (LEVEL, 1 - (1 - LEVEL) / of))
    return {"low": both.low, "high": both.high, "ceiling": surer.high}


def has_units(finding: ArmResult, column: Column) -> bool:
    """Whether single values of what the column holds were kept."""
    if column.judge in OF_TRAINING:
        return False
    return column.measure in (None, result_in(finding, column).main)


def contests(pairs: Pairs) -> list[Contest]:
    """What is of the same units: all seeds of a judge, whatever the arms trained on.

    A pool of titles is of its own corpus.
    """
    found: dict[tuple[str, str, str], list[tuple[ArtifactRef, ArtifactRef]]] = {}
    for row in pairs.values():
        for column, one, other in row:
            measure = result_in(one, column).main
            pool = column.corpus if column.judge == TITLE else ""
            results = (result_ref(one), result_ref(other))
            found.setdefault((column.judge, pool, measure), []).append(results)
    return [
        Contest(judge=judge, measure=measure, pairs=results)
        for (judge, _, measure), results in found.items()
    ]


def result_ref(finding: ArmResult) -> ArtifactRef:
    assert finding.result is not None, "seconds have no units"
    return finding.result


def kept_contests(found: Sequence[Contest]) -> ArtifactRef:
    """As an artifact: a record holds some hundred references, a claim may rest on more."""
    return save_json("contests", {"contests": [one.model_dump(mode="json") for one in found]})


@stage("claim_interval", version=3)
def claim_interval(contests: ArtifactRef) -> ArtifactRef:
    """95 % of two arms' mean difference, over the queries, pairs or examples of all columns.

    Args:
        contests: What `kept_contests` wrote.
    """
    from sentemb_core.evaluation.comparison import seeds_interval, units_in
    from sentemb_core.evaluation.results import TaskResult, read_result
    from sentemb_core.evaluation.titles import title_result

    def result(ref: ArtifactRef, contest: Contest) -> TaskResult:
        if contest.judge == TITLE:
            return title_result(artifact_path(ref), contest.measure)
        return read_result(artifact_path(ref))

    asked = [Contest.model_validate(one) for one in read_json(contests, "contests")["contests"]]
    tasks = [
        [(result(one, contest), result(other, contest)) for one, other in contest.pairs]
        for contest in asked
    ]
    found = seeds_interval(tasks)
    told = {"low": found.low, "high": found.high, "units": units_in(tasks)}
    return save_json("interval", told)
