"""What an arm reached in a column under a seed, as a number and as what a bootstrap resamples."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sentemb_core.config.experiments import LOSS, SECONDS, TITLE, Column
from sentemb_core.types import ArtifactRef, Value
from tasks.artifact_files import artifact_path
from tasks.benchmark import result_of
from tasks.tables.grouped import grouped

if TYPE_CHECKING:
    from sentemb_core.evaluation.results import TaskResult


class ArmResult(Value):
    """One arm in one column under one seed: its result, or the error that it ended in.

    `less`: what the arm asked for more of than there was, and how much there was.
    `seconds` is what all trainings of the arm took when they were computed, `log` of the last one.
    """

    arm: str
    column: str
    seed: int
    result: ArtifactRef | None = None
    less: tuple[str, ...] = ()
    seconds: float = 0.0
    log: ArtifactRef | None = None
    error: str = ""


class Read(Value):
    """What of the judges' texts stands in a corpus that training read, or why nobody can say."""

    corpus: str
    overlap: ArtifactRef | None = None
    error: str = ""


Cells = Mapping[tuple[str, str], list[ArmResult]]
"""Arm and column -> its findings without error, one a seed, by seed."""


def cells_of(findings: Sequence[ArmResult]) -> Cells:
    """The findings that have a number, by arm and column."""
    by_seed = sorted(findings, key=lambda finding: finding.seed)
    return grouped(((one.arm, one.column), one) for one in by_seed if not one.error)


def value_of(finding: ArmResult, column: Column) -> float:
    """A share, a correlation, seconds, or a loss."""
    if column.judge == SECONDS:
        return finding.seconds
    if column.judge == LOSS:
        return final_loss_of(finding)
    result = result_in(finding, column)
    return result.measures[column.measure or result.main]


def final_loss_of(finding: ArmResult) -> float:
    """Of the arm's last training."""
    from sentemb_core.training.state import final_loss

    assert finding.log is not None, "an arm without a training has no loss"
    return final_loss(artifact_path(finding.log))


def result_in(finding: ArmResult, column: Column) -> "TaskResult":
    """A kept result of the suite, or the test split of a pool of titles."""
    from sentemb_core.evaluation.titles import title_result

    assert finding.result is not None, "seconds have no units"
    if column.judge == TITLE:
        return title_result(artifact_path(finding.result), column.measure or "R@5")
    return result_of(finding.result)
