"""Gradients of one step: a batch through the forward passes, the head and the method's losses."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.documents import Tokens
from sentemb_core.encoder.encoder import Reading
from sentemb_core.encoder.packing import padded
from sentemb_core.methods.parts.heads import on_views
from sentemb_core.methods.parts.method import (
    ForwardPass,
    FullBatchForward,
    Learner,
    LossOfRows,
    Method,
    Rows,
    loss_of,
    plainly,
)
from sentemb_core.methods.parts.views import IGNORED, Batch, View
from sentemb_core.training.passes import cached_gradients, length_groups, plain_gradients

TRANSFORMER_SLACK = 1024
"""Most padding tokens in a pass of a transformer. On an Intel with AMX, in bfloat16, batches of 128
sentences train 1.05 to 1.5 times as fast as with a slack of 64, with .5 to 1 times its memory
(MiniLM; ConSERT on 2 layers). A slack of 4,096 is no faster and pads more."""

CUDA_SLACK = 8192
"""The same on CUDA, where a pass costs kernel launches. On an H200, MiniLM trains 1.7 times as fast
as with a slack of 1,024 in batches of 64 pairs (1.4 in bfloat16), and 1.5 (2.6) times in batches of
256 (`benchmarks/gpu.py`). A slack of 65,536 is no faster."""

STATIC_SLACK = 4096
"""The same of a static table, where a further pass costs a dense gradient of the whole table."""


@dataclass(frozen=True)
class StepResult:
    """Loss, metrics and vectors of one step.

    Attributes:
        loss: The sum of all terms.
        metrics: The value of every term by its name, and further metrics of the terms.
        vectors: The vectors of every view after the head, detached.
    """

    loss: float
    metrics: dict[str, float]
    vectors: Mapping[str, Tensor]


@dataclass(frozen=True)
class JointViews:
    """Views that share a forward pass, as one list of rows.

    Attributes:
        reader: The forward pass of all views.
        views: The views by name; a single view if its rows have their own losses.
        own_losses: Whether rows have their own losses.
    """

    reader: ForwardPass | FullBatchForward
    views: Mapping[str, View]
    own_losses: bool

    @property
    def view(self) -> View:
        """Return the only view, whose rows have their own losses."""
        (view,) = self.views.values()
        return view

    @property
    def name(self) -> str:
        """Return the name of `view`."""
        (name,) = self.views
        return name

    @cached_property
    def targets(self) -> int:
        """Return the number of targets in `view`."""
        return sum(int((row != IGNORED).sum()) for row in self.view.targets or ())

    @cached_property
    def tokens(self) -> list[Tokens]:
        return [tokens for view in self.views.values() for tokens in view.tokens]


@dataclass(frozen=True)
class Pass:
    """Rows of joint views in one forward pass."""

    joint: JointViews
    rows: Int64[np.ndarray, " rows"]


@dataclass(frozen=True)
class GradientJob:
    """Computes the gradients of any step of a training.

    Attributes:
        learner: Its parameters receive the gradients.
        method: Defines the losses.
        bfloat16: Whether forward passes use autocast. Losses between rows are always float32.
        seed: Seed of dropout, from which each step derives its own.
    """

    learner: Learner
    method: Method
    bfloat16: bool
    seed: int

    def run(self, batch: Batch, step: int, chunk: int | None) -> StepResult:
        """Add the gradients of a step to the parameters and return its loss and metrics.

        Views with one forward pass are encoded together, in passes of similar length.

        Args:
            batch: The step's views.
            step: The step, counted from 0.
            chunk: Rows of a pass with a gradient cache. None keeps all activations.
        """
        joints = list(self._joint_views(batch))
        passes = [part for joint in joints for part in self._passes(joint, chunk)]
        of_loss, *of_passes = (
            np.random.SeedSequence([self.seed, 2, step]).generate_state(len(passes) + 1).tolist()
        )
        now = RunningStep(self, batch, passes, of_loss, of_passes)
        gradients = plain_gradients if chunk is None else cached_gradients
        loss = gradients(now.encode, len(passes), now.loss)
        return StepResult(loss.item(), now.metrics, now.vectors)

    def _joint_views(self, batch: Batch) -> Iterator[JointViews]:
        """Yield views to encode jointly. A view with row losses is alone: it needs all layers."""
        with_losses = {term.view for _, term in self.method.sample_terms.values()}
        together: dict[ForwardPass | FullBatchForward, dict[str, View]] = {}
        for name in self.method.views:
            reader = self.method.forward_passes.get(name, plainly)
            if name in with_losses:
                yield JointViews(reader, {name: batch.views[name]}, own_losses=True)
            else:
                together.setdefault(reader, {})[name] = batch.views[name]
        for reader, views in together.items():
            yield JointViews(reader, views, own_losses=False)

    def _passes(self, joint: JointViews, chunk: int | None) -> Iterator[Pass]:
        lengths = np.fromiter(map(len, joint.tokens), np.int64)
        if isinstance(joint.reader, FullBatchForward):
            groups = [np.arange(len(lengths))]
        else:
            groups = length_groups(lengths, self._slack(joint), chunk)
        for rows in groups:
            yield Pass(joint, rows)

    def _slack(self, joint: JointViews) -> int:
        """Return the most padding of a pass; unlimited if the encoder packs rows without padding.

        On two cores and MiniLM (2 layers), one packed pass trains SimCSE 7 to 12 % faster.
        It trains HiCL on whole posts 1 to 5 % slower.
        """
        encoder = self.learner.encoder
        if joint.reader is plainly and not joint.own_losses and encoder.packs:
            return sys.maxsize
        if encoder.kind == "static":
            return STATIC_SLACK
        return TRANSFORMER_SLACK if encoder.device.type == "cpu" else CUDA_SLACK

    def encoded(
        self, part: Pass, metrics: dict[str, float] | None, loss: LossOfRows | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return a pass's vectors and, with `metrics`, the weighted loss of its single rows.

        Without `loss`, a view that needs the step's loss is read plainly.
        """
        ids, mask = self._padded(_chosen(part.joint.tokens, part.rows))
        reader, layers = part.joint.reader, part.joint.own_losses
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.bfloat16):
            if not isinstance(reader, FullBatchForward):
                reading = reader(self.learner, ids, mask, layers)
            elif loss is None:
                reading = plainly(self.learner, ids, mask, layers)
            else:
                reading = reader.run(self.learner, ids, mask, layers, loss)
            own = None
            if part.joint.own_losses and metrics is not None:
                rows = self._rows(part, ids, mask, reading)
                own = self._own_loss(part.joint, rows, metrics)
        return reading.pooled.float(), own

    def _own_loss(self, joint: JointViews, rows: Rows, metrics: dict[str, float]) -> Tensor:
        """Return this pass's part of the row losses. The sum over all passes is their mean."""
        total = torch.zeros((), device=rows.ids.device)
        for name, (weight, term) in self.method.sample_terms.items():
            if term.view != joint.name:
                continue
            count = joint.targets if term.per == "target" else len(joint.view)
            value = term.loss(self.learner, rows).float() / max(1, count)
            metrics[name] = metrics.get(name, 0.0) + value.item()
            total = total + weight * value
        return total

    def _rows(self, part: Pass, ids: Tensor, mask: Tensor | None, reading: Reading) -> Rows:
        view = part.joint.view
        inputs = ids
        if view.inputs is not None:
            inputs = self._padded(_chosen(view.inputs, part.rows))[0]
        targets = torch.full_like(ids, IGNORED)
        if view.targets is not None:
            targets = padded(_chosen(view.targets, part.rows), IGNORED)[0].to(ids.device)
        return Rows(ids, torch.ones_like(ids) if mask is None else mask, inputs, targets, reading)

    def _padded(self, sequences: Sequence[Tokens]) -> tuple[Tensor, Tensor | None]:
        ids, mask = padded(sequences, self.learner.encoder.pad_id)
        device = self.learner.encoder.device
        return ids.to(device), mask if mask is None else mask.to(device)

    def by_view(
        self, passes: Sequence[Pass], parts: Sequence[Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """Return every view's vectors in its own row order, aggregated, after the head.

        Sums of rows go through the head, unless their rows did (`Method.head_first`).
        """
        vectors: dict[str, Tensor] = {}
        for joint in {id(part.joint): part.joint for part in passes}.values():
            mine = [index for index, part in enumerate(passes) if part.joint is joint]
            place = np.argsort(np.concatenate([passes[index].rows for index in mine]))
            rows = torch.cat([parts[index] for index in mine])[torch.from_numpy(place)]
            sizes = [len(view) for view in joint.views.values()]
            vectors |= dict(zip(joint.views, rows.split(sizes), strict=True))
        if self.method.head_first:
            vectors = on_views(self.learner.head, vectors)
        for name, segments in self.method.aggregate.items():
            vectors[name] = weighted_sums(vectors[segments], batch.views[segments])
        return vectors if self.method.head_first else on_views(self.learner.head, vectors)


@dataclass(frozen=True)
class RunningStep:
    """One step. Each pass and the loss set their own seed, so a repetition draws the same.

    Attributes:
        job: Encodes the passes.
        batch: The step's views.
        passes: All passes of the step.
        of_loss: Seed of the head and the loss, the same for any number of passes.
        of_passes: Seed of each pass.
        metrics: Metrics as in `StepResult`, complete after the last pass.
        vectors: Vectors as in `StepResult`.
    """

    job: GradientJob
    batch: Batch
    passes: Sequence[Pass]
    of_loss: int
    of_passes: Sequence[int]
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    vectors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def encode(self, index: int, with_loss: bool) -> tuple[Tensor, Tensor | None]:
        """Return a pass's vectors and its own loss (`passes.Encode`)."""
        self._seed_pass(index)
        metrics = self.metrics if with_loss else None
        return self.job.encoded(self.passes[index], metrics, partial(self._loss_if, index))

    def loss(self, parts: list[Tensor]) -> Tensor:
        """Return the loss between all rows (`passes.Loss`)."""
        vectors, value, metrics = self._vectors_and_loss(parts)
        self.vectors.update({name: rows.detach() for name, rows in vectors.items()})
        self.metrics.update(metrics)
        return value

    def _loss_if(self, index: int, rows: Tensor) -> Tensor:
        """Return the loss for these vectors of a pass that is being encoded.

        The pass continues with its own seed, so its later reads repeat the same dropout.
        """
        with torch.no_grad():
            parts = [rows if k == index else self._plain(k) for k in range(len(self.passes))]
        with torch.autocast(rows.device.type, enabled=False):
            _, value, _ = self._vectors_and_loss([part.float() for part in parts])
        self._seed_pass(index)
        return value

    def _plain(self, index: int) -> Tensor:
        """Return a pass's vectors without the step's loss."""
        self._seed_pass(index)
        return self.job.encoded(self.passes[index], None, None)[0]

    def _vectors_and_loss(
        self, parts: Sequence[Tensor]
    ) -> tuple[dict[str, Tensor], Tensor, Mapping[str, float]]:
        """Return every view's vectors, their loss and its metrics."""
        self._seed(self.of_loss)
        vectors = self.job.by_view(self.passes, parts, self.batch)
        return vectors, *loss_of(self.job.method, vectors, self.batch, self.job.learner)

    def _seed_pass(self, index: int) -> None:
        self._seed(self.of_passes[index])

    def _seed(self, seed: int) -> None:
        """Set the seed. `torch.manual_seed` takes 1 ms where CUDA is idle."""
        torch.default_generator.manual_seed(seed)
        if self.job.learner.encoder.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def weighted_sums(vectors: Tensor, view: View) -> Tensor:
    """Return the weighted sum of each owner's rows: [rows, dim] -> [owners, dim]."""
    assert view.owner is not None, "an aggregated view has owners"
    assert view.weight is not None, "an aggregated view has weights"
    owner = torch.from_numpy(view.owner).to(vectors.device)
    weight = torch.from_numpy(view.weight).to(vectors)
    sums = vectors.new_zeros(int(view.owner.max()) + 1, vectors.shape[1])
    return sums.index_add(0, owner, weight[:, None] * vectors)


def _chosen(sequences: Sequence[Tokens], rows: Int64[np.ndarray, " rows"]) -> list[Tokens]:
    return [sequences[row] for row in rows.tolist()]
