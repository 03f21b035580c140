"""Runs that never were: rows whose artifacts are names alone; and results of experiments."""

import numpy as np

from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.types import ArtifactRef
from tasks.artifacts import EncoderResult, RowKind, RunResult, Texts
from tasks.benchmark import kept_result
from tasks.claims import ArmResult
from tasks.report import Outcome


def ref(kind: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest="1" * 64, size=1)


def row(kind: RowKind, label: str, encoder: str = "model", parent: str = "") -> EncoderResult:
    return EncoderResult(
        kind=kind,
        label=label,
        parent=parent,
        encoder=ref(encoder),
        sentences=ref("sentences"),
        scores=ref(label.replace(" ", "_")),
    )


def training(
    rows: list[EncoderResult], best: int, *, controls: tuple[EncoderResult, ...] = ()
) -> RunResult:
    texts = Texts(documents=ref("d"), validation_pool=ref("b"), sentences=ref("s"))
    return RunResult(
        texts=texts,
        rows=rows,
        controls=list(controls),
        bm25=ref("bm25"),
        random=ref("random"),
        best=best,
    )


def outcome(run: str) -> Outcome:
    """The outcome of a run without a gate, whose report is written nowhere."""
    return Outcome(
        run=run, training=training(ROWS, 0), encoder=ref("model"), report="page", gate=None,
        timings=[],
    )  # fmt: skip


ROWS = [
    row("start", "start"),
    row("trained", "after conpono", parent="start"),
    row("round", "round 1", parent="after conpono"),
]


SEEDS = (1, 2, 3)


def kept_hits(rate: float, draw: int, task: str = "CR") -> ArtifactRef:
    """A kept result of a share of hits; equal draws make equal rates find the same."""
    hits = (np.random.default_rng(draw).random((500, 1)) < rate).astype(np.float64)
    measures = {"accuracy": float(hits.mean()), "other": 0.5}
    return kept_result(TaskResult(task, "accuracy", measures, hits))


def of_arm(arm: str, *rates: float, column: str = "CR", draw: int = 3) -> list[ArmResult]:
    """An arm with one rate for each of the seeds 1, 2, 3, all on the same draw."""
    return [
        ArmResult(arm=arm, column=column, seed=seed, result=kept_hits(rate, draw, column))
        for seed, rate in enumerate(rates, start=1)
    ]


def of_arms(rates: dict[str, float], column: str = "CR") -> list[ArmResult]:
    """Arms with one rate under all seeds, each seed on a draw of its own."""
    return [
        ArmResult(
            arm=arm, column=column, seed=seed, result=kept_hits(rate, 7 * seed, column),
            seconds=10 * rate,
        )
        for arm, rate in rates.items()
        for seed in SEEDS
    ]  # fmt: skip
