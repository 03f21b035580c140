"""Everything a training must remember to go on as if it had never been interrupted."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from pydantic import ConfigDict
from torch import Tensor, nn, optim

from sentemb_core.methods.parts.method import Learner
from sentemb_core.stopping import stopping_decision
from sentemb_core.training.checkpoint import Checkpoint
from sentemb_core.types import Value

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


class TrainingReport(Value):
    """What a training did. Equal for an interrupted and an undisturbed run."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    steps: int = 0
    pairs: int = 0
    sentences: int = 0
    unopposed_anchors: int = 0
    loss: float | None = None
    chunk: int | None = None
    scores: tuple[tuple[int, float], ...] = ()
    best_step: int | None = None


@dataclass
class TrainingState:
    """Weights, optimiser, counters and log. Dropout needs no memory: a step seeds its own.

    Attributes:
        learner: What learns.
        optimiser: Of its parameters.
        recipe: What may continue it.
        report: The counters.
        log: What every step told.
        kept: Networks of which the best weights are remembered, too (`Method.kept`).
        best: Weights of `lasting` at the best validation so far.
        whole: False from where a step moves weights to where it is in the log. What comes before,
            gradients above all, whoever goes on computes again (a batch norm's running averages,
            which nothing reads, count it twice).
        saved: Step of the checkpoint that was written last, or gone on from.
    """

    learner: Learner
    optimiser: optim.Optimizer
    recipe: str
    report: TrainingReport
    log: StepLog
    kept: tuple[str, ...] = ()
    best: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    whole: bool = True
    saved: int = 0

    @property
    def lasting(self) -> nn.ModuleDict:
        """What is left of the learner when the training is over."""
        networks = {name: self.learner.networks[name] for name in self.kept}
        return nn.ModuleDict({"encoder": self.learner.encoder, **networks})

    def checkpoint(self) -> Checkpoint:
        """A snapshot, with the name of the recipe it belongs to."""
        tensors = {
            **_prefixed("encoder.", self.learner.encoder.state_dict()),
            **_prefixed("head.", self.learner.head.state_dict()),
            **_prefixed("networks.", self.learner.networks.state_dict()),
            **_prefixed("best.", self.best),
            **{f"log.{name}": torch.from_numpy(told) for name, told in self.log.arrays().items()},
        }
        for index, memory in self.optimiser.state_dict()["state"].items():
            tensors |= _prefixed(f"optimiser.{index}.", memory)
        return Checkpoint(tensors, f"{self.recipe}\n{self.report.model_dump_json()}")

    def checkpoint_size(self, *, validated: bool) -> int:
        """Bytes that a checkpoint will take when all has its memory.

        That is the weights, Adam's two moments of those that learn, and the best ones where
        validations tell which; counters and log are small beside them.
        """
        kept = [*self.learner.modules, *([self.lasting] if validated else [])]
        weights = [weight for module in kept for weight in module.state_dict().values()]
        groups = self.optimiser.param_groups
        moments = [weight for group in groups for weight in group["params"]] * 2
        return sum(tensor.nbytes for tensor in weights + moments)

    def restore(self, checkpoint: Checkpoint) -> bool:
        """Continue from a snapshot; False, and nothing happens, if it is of another recipe."""
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
        told = _under("log.", checkpoint.tensors)
        self.log.restore({name: column.numpy() for name, column in told.items()})
        self.report = TrainingReport.model_validate_json(report)
        return True

    def count(self, **changes: object) -> None:
        """Replace these counters."""
        self.report = self.report.model_copy(update=changes)

    def score(self, value: float) -> None:
        """Note a validation; keep the weights if they are the best so far."""
        scores = (*self.report.scores, (self.report.steps, value))
        best = stopping_decision([score for _, score in scores]).best
        if best == len(scores) - 1:
            weights = self.lasting.state_dict()
            self.best = {name: weight.detach().clone() for name, weight in weights.items()}
        self.count(scores=scores, best_step=scores[best][0])

    def patient(self, patience: int | None) -> bool:
        """Whether the validations so far give reason to go on."""
        scores = [score for _, score in self.report.scores]
        return not scores or stopping_decision(scores, patience=patience).go_on


def recipe_digest(*parts: str) -> str:
    """A name for what may continue what."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
