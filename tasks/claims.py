"""What becomes of a paper's claims: holds, does not hold, or not decided, with the differences."""

from collections.abc import Sequence
from statistics import mean
from typing import Literal

from sentemb_core.experiments import OF_TRAINING, Claim, Column, Experiment
from tasks.findings import Cells, Finding, units_in, value_of
from tasks.rows import Value

Fate = Literal["holds", "does not hold", "not decided", "not run"]


FEWEST = 2
"""Seeds from which on they can agree."""


class Rival(Value):
    """The arm that a claim calls better, less one of the others: means over columns and seeds."""

    than: str
    difference: float
    low: float
    high: float
    seeds: int
    better_in: int

    @property
    def fate(self) -> Fate:
        """Decided where the interval leaves out 0 and all seeds agree; one decides nothing."""
        if self.seeds < FEWEST:
            return "not decided"
        if self.low > 0 and self.better_in == self.seeds:
            return "holds"
        if self.high < 0 and self.better_in == 0:
            return "does not hold"
        return "not decided"


class Fated(Value):
    """A claim, the differences that it rests on, and the arms that it could not be held against."""

    text: str
    better: str
    columns: list[str]
    rivals: list[Rival]
    missing: list[str]

    @property
    def fate(self) -> Fate:
        """All others have to fall behind; one that is ahead is enough against the claim."""
        fates = {rival.fate for rival in self.rivals}
        if "does not hold" in fates:
            return "does not hold"
        if self.missing or not fates:
            return "not run"
        return "holds" if fates == {"holds"} else "not decided"


def fated(experiment: Experiment, cells: Cells) -> list[Fated]:
    """Every claim of an experiment."""
    return [fate_of(claim, experiment, cells) for claim in experiment.claims]


def fate_of(claim: Claim, experiment: Experiment, cells: Cells) -> Fated:
    """The claim against each of the arms that it puts below."""
    columns = [
        one
        for one in experiment.columns
        if (one.label in claim.columns if claim.columns else one.judge not in OF_TRAINING)
    ]
    whole = [
        arm
        for arm in claim.than
        if all(paired(*sides(claim.better, arm, column, cells)) for column in columns)
    ]
    return Fated(
        text=claim.text,
        better=claim.better,
        columns=[one.label for one in columns],
        rivals=[rival(claim.better, arm, columns, cells) for arm in whole],
        missing=[arm for arm in claim.than if arm not in whole],
    )


def rival(better: str, than: str, columns: Sequence[Column], cells: Cells) -> Rival:
    """The difference, and in how many seeds it is above 0.

    The interval is of other queries; of seconds and losses, which have none, the range over the
    seeds: the lower is better.
    """
    pairs = [paired(*sides(better, than, one, cells)) for one in columns]
    timed = columns[0].judge in OF_TRAINING
    gains = [
        [value_of(one, column) - value_of(other, column) for one, other in seeds]
        for column, seeds in zip(columns, pairs, strict=True)
    ]
    by_seed = [(-1 if timed else 1) * mean(row) for row in zip(*gains, strict=True)]
    low, high = (min(by_seed), max(by_seed)) if timed else interval(columns, pairs)
    return Rival(
        than=than,
        difference=mean(by_seed),
        low=low,
        high=high,
        seeds=len(by_seed),
        better_in=sum(gain > 0 for gain in by_seed),
    )


def sides(
    better: str, than: str, column: Column, cells: Cells
) -> tuple[list[Finding], list[Finding]]:
    """What both arms have in a column."""
    return cells.get((better, column.label), []), cells.get((than, column.label), [])


def paired(firsts: Sequence[Finding], seconds: Sequence[Finding]) -> list[tuple[Finding, Finding]]:
    """Findings of the seeds that both have."""
    other = {one.seed: one for one in seconds}
    return [(one, other[one.seed]) for one in firsts if one.seed in other]


def interval(
    columns: Sequence[Column], pairs: Sequence[Sequence[tuple[Finding, Finding]]]
) -> tuple[float, float]:
    """95 %, over the queries, pairs or examples of all columns."""
    from sentemb_core.evaluation.comparison import seeds_comparison

    results = [
        [(units_in(one, column), units_in(other, column)) for one, other in seeds]
        for column, seeds in zip(columns, pairs, strict=True)
    ]
    found = seeds_comparison("claim", results)
    return found.low, found.high
