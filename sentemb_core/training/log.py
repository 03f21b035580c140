"""The loss of every step, kept beside the checkpoints so that a resumed training has all of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sentemb_core.training.state import TrainingReport

KEPT = ("loss", "learning_rate", "gradient_norm", "validation")
"""What is the same in every run of one seed; rates per second are not."""


def _row(line: bytes) -> dict[str, Any]:
    """A step; nothing of a line that a power cut has left as zeros."""
    try:
        return json.loads(line)
    except ValueError:
        return {}


class LossLog:
    """Steps and their metrics in the order of the steps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[int, dict[str, float]] = {}

    @classmethod
    def continued(cls, work: Path) -> "LossLog":
        """What an interrupted training has left in its work folder; torn lines are dropped.

        Steps that are done again after the last checkpoint replace their first lines.
        """
        log = cls(work / "steps.jsonl")
        if log.path.exists():
            content = log.path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            log.path.write_bytes(whole)
            rows = [row for line in whole.splitlines() if (row := _row(line))]
            log.rows = {row["step"]: row for row in rows}
        return log

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        row = {"step": step, **{name: metrics[name] for name in KEPT if name in metrics}}
        self.rows[step] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def write(self, folder: Path, report: TrainingReport) -> None:
        """steps.json, by column, and report.json.

        A training that went on after a kill may end before a step that it had come to.
        """
        ordered = [self.rows[step] for step in sorted(self.rows) if step <= report.steps]
        columns = {name: [row.get(name) for row in ordered] for name in ("step", *KEPT)}
        (folder / "steps.json").write_text(json.dumps(columns), encoding="utf-8")
        (folder / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")


def read_steps(folder: Path) -> dict[str, list[Any]]:
    """The columns that `LossLog.write` wrote."""
    return json.loads((folder / "steps.json").read_text("utf-8"))


def final_loss(folder: Path) -> float:
    """Mean over the last tenth of the steps that `LossLog.write` wrote, or the last one."""
    losses = read_steps(folder)["loss"]
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))
