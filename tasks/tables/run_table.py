"""A run as a table for the terminal: its encoders between the fixed rows, and their seconds."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sentemb_core.console import terminal_table
from sentemb_core.formats import counted
from sentemb_core.report.data import StageTiming
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path
from tasks.validate import bm25_scores, random_scores, scores_of

if TYPE_CHECKING:
    from rich.table import Table

    from tasks.report import Outcome

SHOWN = (1, 5, 10)
"""k of the recalls in a table."""


def scores_table(benchmark: ArtifactRef, rows: Iterable[Sequence[str]]) -> "Table":
    """Encoders in both directions: R@1/5/10, and the seconds each took."""
    from sentemb_core.corpus.validation_pool import SIDES, ValidationPool

    pool = ValidationPool.open(artifact_path(benchmark))
    recalls = [
        f"{' → '.join(way) if k == SHOWN[0] else ''}\nR@{k}"
        for way in (SIDES[pool.kind], SIDES[pool.kind][::-1])
        for k in SHOWN
    ]
    head = ["encoder", *recalls, "\nseconds"]
    told = (
        f"R@k on the test split (never decided on): {counted(len(pool.queries('test')), 'query')}, "
        f"{pool.n_candidates:,} candidates"
    )
    title = f"{told}; * the returned encoder"
    return terminal_table(head, rows, range(1, len(head)), title=title)


def row_of(label: str, scores: ArtifactRef, seconds: float | None) -> list[str]:
    """One encoder on the test split."""
    test = scores_of(scores)["test"].model_dump()
    recalls = [
        f"{test[way][f'recall_at_{k}']:.3f}"
        for way in ("document_to_counterpart", "counterpart_to_document")
        for k in SHOWN
    ]
    return [label, *recalls, "" if seconds is None else f"{seconds:.0f}"]


def run_rows(outcome: "Outcome", prefix: str = "") -> list[list[str]]:
    """Every encoder of a run in its order, the best one marked, then the controls."""
    training = outcome.training
    return [
        row_of(
            f"{prefix}{row.label}{' *' if number == training.best else ''}",
            row.scores,
            seconds_behind(outcome.timings, row.label),
        )
        for number, row in enumerate([*training.rows, *training.controls])
    ]


def fixed_rows(outcome: "Outcome") -> list[list[str]]:
    """What no training moves: chance, and words alone."""
    training = outcome.training
    rows: list[list[str]] = []
    for label, scores, stage in (
        ("random encoder", training.random, random_scores.name),
        ("BM25", training.bm25, bm25_scores.name),
    ):
        costs = [timing.seconds for timing in outcome.timings if timing.stage == stage]
        rows.append(row_of(label, scores, sum(costs) if costs else None))
    return rows


def seconds_behind(timings: Iterable[StageTiming], label: str) -> float:
    """What the stages behind a row cost when they were computed."""
    return sum((timing.seconds for timing in timings if timing.round == label), 0.0)


def outcome_table(outcome: "Outcome") -> "Table":
    """One run between its fixed rows."""
    rows = [*fixed_rows(outcome), *run_rows(outcome)]
    return scores_table(outcome.training.texts.validation_pool, rows)
