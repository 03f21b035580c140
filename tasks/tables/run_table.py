"""Results as tables for the terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sentemb_core.report.data import StageTiming
from sentemb_core.types import ArtifactRef
from tasks.storing import opened
from tasks.validate import bm25_scores, random_scores, scores_of

if TYPE_CHECKING:
    from rich.table import Table

    from tasks.publish import Outcome

SHOWN = (1, 5, 10)
"""k of the recalls in a table."""


def scores_table(benchmark: ArtifactRef) -> "Table":
    """An empty table of encoders: both directions, R@1/5/10, the seconds each took."""
    from rich.table import Table

    from sentemb_core.corpus.benchmark import SIDES, Benchmark

    pool = Benchmark.open(opened(benchmark))
    title = f"R@k on the test split (never decided on), {pool.n_candidates:,} candidates"
    told = f"{title}; * the returned encoder"
    table = Table(title=told, box=None, padding=(0, 1), header_style="bold")
    table.add_column("encoder")
    for way in (SIDES[pool.kind], SIDES[pool.kind][::-1]):
        for k in SHOWN:
            table.add_column(f"{' → '.join(way) if k == SHOWN[0] else ''}\nR@{k}", justify="right")
    table.add_column("\nseconds", justify="right")
    return table


def add_row(table: "Table", label: str, scores: ArtifactRef, seconds: float | None) -> None:
    """One encoder on the test split."""
    test = scores_of(scores)["test"].model_dump()
    cells = [
        f"{test[way][f'recall_at_{k}']:.3f}"
        for way in ("document_to_counterpart", "counterpart_to_document")
        for k in SHOWN
    ]
    table.add_row(label, *cells, "" if seconds is None else f"{seconds:.0f}")


def add_run(table: "Table", outcome: "Outcome", prefix: str = "") -> None:
    """Every encoder of a run in its order, the best one marked, then the controls."""
    training = outcome.training
    for number, row in enumerate([*training.rows, *training.controls]):
        mark = " *" if number == training.best else ""
        add_row(
            table, f"{prefix}{row.label}{mark}", row.scores, seconds(outcome.timings, row.label)
        )


def add_fixed(table: "Table", outcome: "Outcome") -> None:
    """The rows that no training moves: chance, and words alone."""
    training = outcome.training
    for label, scores, stage in (
        ("random encoder", training.random, random_scores.name),
        ("BM25", training.bm25, bm25_scores.name),
    ):
        costs = [timing.seconds for timing in outcome.timings if timing.stage == stage]
        add_row(table, label, scores, sum(costs) if costs else None)


def seconds(timings: Iterable[StageTiming], label: str) -> float:
    """What the stages behind a row cost when they were computed."""
    return sum((timing.seconds for timing in timings if timing.round == label), 0.0)


def outcome_table(outcome: "Outcome") -> "Table":
    """One run between its fixed rows."""
    table = scores_table(outcome.training.texts.benchmark)
    add_fixed(table, outcome)
    add_run(table, outcome)
    return table
