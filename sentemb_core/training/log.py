"""The loss of every step, kept beside the checkpoints so that a resumed training has all of it."""

import json
from collections.abc import Mapping
from pathlib import Path

from sentemb_core.training.state import TrainingReport

KEPT = ("loss", "learning_rate", "gradient_norm", "validation")
"""What is the same in every run of one seed; rates per second are not."""


class LossLog:
    """Steps and their metrics in the order of the steps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[int, dict[str, float]] = {}

    @classmethod
    def continued(cls, work: Path) -> "LossLog":
        """What an interrupted training has left in its work folder; a torn last line is dropped.

        Steps that are done again after the last checkpoint replace their first lines.
        """
        log = cls(work / "steps.jsonl")
        if log.path.exists():
            text = log.path.read_text("utf-8")
            whole = text[: text.rfind("\n") + 1]
            log.path.write_text(whole, encoding="utf-8")
            rows = [json.loads(line) for line in whole.splitlines()]
            log.rows = {row["step"]: row for row in rows}
        return log

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        row = {"step": step, **{name: metrics[name] for name in KEPT if name in metrics}}
        self.rows[step] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def write(self, folder: Path, report: TrainingReport) -> None:
        """steps.json, by column, and report.json."""
        ordered = [self.rows[step] for step in sorted(self.rows)]
        columns = {name: [row.get(name) for row in ordered] for name in ("step", *KEPT)}
        (folder / "steps.json").write_text(json.dumps(columns), encoding="utf-8")
        (folder / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
