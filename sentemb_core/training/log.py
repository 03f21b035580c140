"""What every step of a training told, kept in its checkpoints: a resumed one has all of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

COLUMNS = ("loss", "learning_rate", "gradient_norm", "validation")
"""What is the same in every run of one seed; rates per second are not."""


class StepLog:
    """Metrics in the order of the steps, of which none is left out."""

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {name: [] for name in COLUMNS}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Those of the next step; what it did not measure is no number."""
        for name, column in self.columns.items():
            column.append(metrics.get(name, np.nan))

    def arrays(self) -> dict[str, Float64[np.ndarray, " steps"]]:
        """By column."""
        return {name: np.array(column) for name, column in self.columns.items()}

    def restore(self, arrays: Mapping[str, Float64[np.ndarray, " steps"]]) -> None:
        """Go on behind what `arrays` gave."""
        self.columns = {name: arrays[name].tolist() for name in COLUMNS}

    def write(self, folder: Path) -> None:
        """steps.json, by column."""
        told = {
            name: [None if np.isnan(value) else value for value in column]
            for name, column in self.columns.items()
        }
        steps = {"step": [*range(1, len(told["loss"]) + 1)], **told}
        (folder / "steps.json").write_text(json.dumps(steps), encoding="utf-8")


def read_steps(folder: Path) -> dict[str, list[Any]]:
    """The columns that `StepLog.write` wrote."""
    return json.loads((folder / "steps.json").read_text("utf-8"))


def final_loss(folder: Path) -> float:
    """Mean over the last tenth of the steps that `StepLog.write` wrote, or the last one."""
    losses = read_steps(folder)["loss"]
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))
