"""State of a training: all that a resumed run needs to end in the same bits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ConfigDict
from torch import Tensor, nn, optim

from sentemb_core.methods.parts.method import Learner
from sentemb_core.stopping import stopping_decision
from sentemb_core.training.checkpoint import Checkpoint
from sentemb_core.types import Value

COLUMNS = ("loss", "learning_rate", "gradient_norm", "validation")
"""Metrics that are equal in every run of one seed, unlike rates per second."""


class StepLog:
    """Metrics of all steps in their order. Checkpoints keep them, so a resumed run has them all."""

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {name: [] for name in COLUMNS}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of the next step; unmeasured ones are NaN."""
        for name, column in self.columns.items():
            column.append(metrics.get(name, np.nan))

    def write(self, folder: Path) -> None:
        """Write steps.json, by column."""
        columns = {
            name: [None if np.isnan(value) else value for value in column]
            for name, column in self.columns.items()
        }
        steps = {"step": [*range(1, len(columns["loss"]) + 1)], **columns}
        (folder / "steps.json").write_text(json.dumps(steps), encoding="utf-8")


def read_steps(folder: Path) -> dict[str, list[Any]]:
    """Return the columns of a steps.json."""
    return json.loads((folder / "steps.json").read_text("utf-8"))


def final_loss(folder: Path) -> float:
    """Return the mean loss of the last tenth of the steps in steps.json, at least one step."""
    losses = read_steps(folder)["loss"]
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))


class TrainingReport(Value):
    """Counters of a training. Equal for an interrupted and an undisturbed run."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    steps: int = 0
    pairs: int = 0
    sentences: int = 0
    unopposed_anchors: int = 0
    zero_rows: int = 0
    """Rows without a known word, which no loss counted (`info_nce.without_zero_rows`)."""
    loss: float | None = None
    chunk: int | None = None
    scores: tuple[tuple[int, float], ...] = ()
    best_step: int | None = None


@dataclass
class TrainingState:
    """Weights, optimiser, counters and log. Dropout needs no state: each step has its own seed."""

    learner: Learner
    optimiser: optim.Optimizer
    recipe: str
    """Digest of method and settings; only the same recipe may continue."""
    report: TrainingReport
    log: StepLog
    kept: tuple[str, ...] = ()
    """Networks whose best weights are kept beside the encoder's (`Method.kept`)."""
    best: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Weights of `lasting` at the best validation so far."""
    whole: bool = True
    """False while a step changes weights and is not yet in the log."""
    saved: int = 0
    """Step of the last written or restored checkpoint."""

    @property
    def lasting(self) -> nn.ModuleDict:
        """Return the parts of the learner that the training returns."""
        networks = {name: self.learner.networks[name] for name in self.kept}
        return nn.ModuleDict({"encoder": self.learner.encoder, **networks})

    def checkpoint(self) -> Checkpoint:
        """Return a snapshot with the recipe that it belongs to."""
        tensors = {
            **_prefixed("encoder.", self.learner.encoder.state_dict()),
            **_prefixed("head.", self.learner.head.state_dict()),
            **_prefixed("networks.", self.learner.networks.state_dict()),
            **_prefixed("best.", self.best),
            **{
                f"log.{name}": torch.tensor(column, dtype=torch.float64)
                for name, column in self.log.columns.items()
            },
        }
        for index, memory in self.optimiser.state_dict()["state"].items():
            tensors |= _prefixed(f"optimiser.{index}.", memory)
        return Checkpoint(tensors, f"{self.recipe}\n{self.report.model_dump_json()}")

    def checkpoint_size(self, *, validated: bool) -> int:
        """Return the bytes of a checkpoint: weights, Adam's two moments, and the best weights.

        Counters and log are small. The best weights are kept only with a validation.
        """
        kept = [*self.learner.modules, *([self.lasting] if validated else [])]
        weights = [weight for module in kept for weight in module.state_dict().values()]
        groups = self.optimiser.param_groups
        moments = [weight for group in groups for weight in group["params"]] * 2
        return sum(tensor.nbytes for tensor in weights + moments)

    def restore(self, checkpoint: Checkpoint) -> bool:
        """Continue from a snapshot. Return False and change nothing if its recipe differs."""
        recipe, report = checkpoint.facts.split("\n", 1)
        if recipe != self.recipe:
            return False
        self.learner.encoder.load_state_dict(_under("encoder.", checkpoint.tensors))
        self.learner.head.load_state_dict(_under("head.", checkpoint.tensors))
        self.learner.networks.load_state_dict(_under("networks.", checkpoint.tensors))
        memories: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimiser.", checkpoint.tensors).items():
            index, key = name.split(".", 1)
            memories.setdefault(int(index), {})[key] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": memories, "param_groups": groups})
        self.best = _under("best.", checkpoint.tensors)
        columns = _under("log.", checkpoint.tensors)
        self.log.columns = {name: columns[name].tolist() for name in COLUMNS}
        self.report = TrainingReport.model_validate_json(report)
        return True

    def count(self, **changes: object) -> None:
        """Replace these counters."""
        self.report = self.report.model_copy(update=changes)

    def score(self, value: float) -> None:
        """Add a validation score; keep the weights if they are the best so far."""
        scores = (*self.report.scores, (self.report.steps, value))
        best = stopping_decision([score for _, score in scores]).best
        if best == len(scores) - 1:
            weights = self.lasting.state_dict()
            self.best = {name: weight.detach().clone() for name, weight in weights.items()}
        self.count(scores=scores, best_step=scores[best][0])

    def patient(self, patience: int | None) -> bool:
        """Return whether the validation scores so far allow more steps."""
        scores = [score for _, score in self.report.scores]
        return not scores or stopping_decision(scores, patience=patience).go_on


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
