"""A run's encoders between the baselines: rows of recalls and seconds, and the terminal's table."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef, StageTiming
from tasks.artifacts import artifact_path
from tasks.results import Pivot, ResultRow, ResultTable
from tasks.validate import bm25_scores, random_scores, scores_of
from tasks.verdict import returned_name

if TYPE_CHECKING:
    from tasks.report import Outcome

DEPTHS = (1, 5, 10)
"""k of the recalls in a table."""

RETRIEVER = "retriever"
"""Label of the stages that read the pool, fit the parts and choose among them."""


def run_rows(outcome: "Outcome", prefix: str = "") -> Iterator[ResultRow]:
    """Yield the encoders of a run in its order, the controls and the retrievers.

    A star marks what the run returned.
    """
    training = outcome.training
    returned = None if training.retriever else training.best
    for number, one in enumerate([*training.rows, *training.controls]):
        label = f"{prefix}{one.label}{' *' if number == returned else ''}"
        seconds = seconds_of(outcome.timings, one.label)
        yield from encoder_rows(outcome, label, one.scores, seconds)
    if not (chosen := training.retriever):
        return
    label = f"{prefix}{returned_name(training)} *"
    yield from encoder_rows(outcome, label, chosen.scores, seconds_of(outcome.timings, RETRIEVER))
    if chosen.without_encoder:
        label = f"{prefix}retriever without a pretrained encoder"
        yield from encoder_rows(outcome, label, chosen.without_encoder, None)


def baseline_rows(outcome: "Outcome") -> Iterator[ResultRow]:
    """Yield the random encoder and BM25."""
    training = outcome.training
    for label, scores, stage in (
        ("random encoder", training.random, random_scores.stage.name),
        ("BM25", training.bm25, bm25_scores.stage.name),
    ):
        costs = [timing.seconds for timing in outcome.timings if timing.stage == stage]
        yield from encoder_rows(outcome, label, scores, sum(costs) if costs else None)


def encoder_rows(
    outcome: "Outcome", label: str, scores: ArtifactRef, seconds: float | None
) -> Iterator[ResultRow]:
    """Yield an encoder's recalls on the test split in both directions, then its seconds."""
    from sentemb_core.corpus.validation_pool import SIDES, read_report

    pool = read_report(artifact_path(outcome.training.texts.validation_pool))
    test = scores_of(scores)["test"].model_dump()
    sides = SIDES[pool.kind]
    for way, name in ((sides, "document_to_counterpart"), (sides[::-1], "counterpart_to_document")):
        for k in DEPTHS:
            yield ResultRow(
                system=label, task=outcome.run, split="test", direction=" → ".join(way),
                metric=f"R@{k}", value=test[name][f"recall_at_{k}"], units=test[name]["queries"],
                key=scores.digest,
            )  # fmt: skip
    yield ResultRow(system=label, task=outcome.run, metric="seconds", value=seconds)


def seconds_of(timings: Iterable[StageTiming], label: str) -> float:
    """Return the cost of the stages behind a row, measured when they were computed."""
    return sum((timing.seconds for timing in timings if timing.round == label), 0.0)


def run_table(outcome: "Outcome", rows: Iterable[ResultRow]) -> ResultTable:
    """Return encoders as lines, recalls in both directions and seconds as columns."""
    from sentemb_core.corpus.validation_pool import read_report

    pool = read_report(artifact_path(outcome.training.texts.validation_pool))
    queries = counted(pool.n_queries["test"], "query")
    return ResultTable(
        id=outcome.run,
        title=f"R@k on the test split: {queries}, {pool.n_candidates:,} candidates; * what "
        "the run returned",
        rows=tuple(rows),
        pivot=Pivot(columns=("direction", "metric"), corner="encoder"),
    )


def outcome_table(outcome: "Outcome") -> ResultTable:
    """Return one run between its baselines."""
    return run_table(outcome, [*baseline_rows(outcome), *run_rows(outcome)])
