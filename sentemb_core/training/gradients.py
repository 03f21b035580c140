"""Gradients of one step: a batch through the forward passes, the head and the method's losses."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from sentemb_core.documents import Tokens
from sentemb_core.encoder.encoder import Reading
from sentemb_core.encoder.packing import padded
from sentemb_core.heap import trim_heap
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
    require_rows,
)
from sentemb_core.methods.parts.views import IGNORED, Batch, View
from sentemb_core.training.distributed import ALONE, Ranks

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


Groups = Sequence[Int64[np.ndarray, " _"]]
"""The rows of each group: all rows, each once."""


def length_groups(
    lengths: Int64[np.ndarray, " rows"], slack: int, largest: int | None = None
) -> Groups:
    """Return groups of rows of similar length, the longest first.

    Args:
        lengths: Tokens of each row.
        slack: Most padding tokens of a group; as many cost as much as one more pass.
        largest: Most rows of a group. None: no limit.
    """
    order = np.argsort(-lengths, kind="stable")
    groups: list[np.ndarray] = []
    start, padding = 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        padding += int(lengths[order[start]]) - length
        if padding > slack or (largest is not None and place - start >= largest):
            groups.append(order[start:place])
            start, padding = place, 0
    groups.append(order[start:])
    return groups


Encode = Callable[[int, bool], tuple[Tensor, Tensor | None]]
"""(group, whether to compute its own loss) -> vectors [rows, ...] and that loss, if it has one.
Two calls must return equal vectors, also with dropout."""

Loss = Callable[[list[Tensor]], Tensor]
"""The vectors of every group -> the loss between all rows."""


def plain_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """Backpropagate through all groups at once and return the loss. Keeps every activation."""
    encoded = [encode(group, True) for group in range(groups)]
    value = loss([vectors for vectors, _ in encoded])
    for _, own in encoded:
        value = value if own is None else value + own
    value.backward()
    return value.detach()


def cached_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """Return the same loss and gradients with the activations of one group at a time.

    This is GradCache (Gao et al. 2021):

    1. Encode all groups without a graph.
    2. Compute the loss and its gradient at the vectors. Heads get their gradients here.
    3. Encode each group again with a graph; backpropagate the gradient of its vectors, and its own
       loss. Dropout must repeat the draws of step 1.

    Groups of many shapes leave holes in the heap. With the heap trimmed before steps 1 and 2, the
    memory peak at 3,200 pairs is 1.2 times that at 128 (1.3 without; `benchmarks/training.py`).
    """
    trim_heap()
    with torch.no_grad():
        vectors = [encode(group, False)[0] for group in range(groups)]
    trim_heap()
    for part in vectors:
        part.requires_grad_()
    value = loss(vectors)
    value.backward()
    total = value.detach()
    for group, part in enumerate(vectors):
        again, own = encode(group, True)
        if again.requires_grad and part.grad is not None:
            again.backward(part.grad, retain_graph=own is not None)
        if own is not None:
            own.backward()
            total = total + own.detach()
    return total


@dataclass(frozen=True)
class StepResult:
    """Loss of one step, metrics of its terms, and every view's vectors after the head, detached."""

    loss: float
    metrics: dict[str, float]
    vectors: Mapping[str, Tensor]


@dataclass(frozen=True)
class JointViews:
    """Views that share a forward pass; a single view if its rows have their own losses."""

    reader: ForwardPass | FullBatchForward
    views: Mapping[str, View]
    own_losses: bool

    @cached_property
    def tokens(self) -> list[Tokens]:
        return [tokens for view in self.views.values() for tokens in view.tokens]

    @cached_property
    def targets(self) -> int:
        """Return the number of targets of the single view."""
        (view,) = self.views.values()
        return sum(int((row != IGNORED).sum()) for row in view.targets or ())


@dataclass(frozen=True)
class Pass:
    """Rows of joint views in one forward pass, and the rank that runs it."""

    joint: JointViews
    rows: Int64[np.ndarray, " rows"]
    rank: int = 0


@dataclass(frozen=True)
class GradientJob:
    """Computes the gradients of any step of a training.

    With `bfloat16`, forward passes use autocast; losses between rows are always float32. Each step
    derives the seed of its dropout from `seed`. Of several ranks, each calls `run` with the same
    batch, and has the same result.
    """

    learner: Learner
    method: Method
    bfloat16: bool
    seed: int
    ranks: Ranks = ALONE

    def run(self, batch: Batch, step: int, chunk: int | None) -> StepResult:
        """Add the gradients of a step to the parameters and return its loss and metrics.

        Views with one forward pass are encoded together, in passes of similar length.

        Args:
            batch: The views of the step.
            step: Number of the step, from 0.
            chunk: Most rows of a pass, with a gradient cache. None: no cache, so the activations of
                all passes are in memory at once.

        Raises:
            RecipeError: the batch has fewer rows than ranks.
        """
        joints = list(self._joint_views(batch))
        passes = [part for joint in joints for part in self._passes(joint, chunk)]
        of_loss, *of_passes = (
            np.random.SeedSequence([self.seed, 2, step]).generate_state(len(passes) + 1).tolist()
        )
        now = RunningStep(self, batch, passes, of_loss, of_passes)
        gradients = plain_gradients if chunk is None else cached_gradients
        loss = gradients(now.encode, len(now.own), now.loss)
        self.ranks.sum_gradients(nn.ModuleList(self.learner.modules).parameters())
        shares = {name: now.metrics.get(name, 0.0) for name in self.method.sample_terms}
        sums = self.ranks.summed({"": loss.item(), **shares})
        return StepResult(sums.pop(""), now.metrics | sums, now.vectors)

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
        """Yield the passes of all ranks: rows of a similar length go to the ranks in turn."""
        lengths = np.fromiter(map(len, joint.tokens), np.int64)
        count = self.ranks.count
        require_rows(len(lengths), count)
        if isinstance(joint.reader, FullBatchForward):
            groups = [np.arange(len(lengths))]
        else:
            largest = None if chunk is None else chunk * count
            groups = length_groups(lengths, self._slack(joint), largest)
        begin = 0
        for rows in groups:
            for rank in range(count):
                own = rows[(rank - begin) % count :: count]
                if len(own):
                    yield Pass(joint, own, rank)
            begin += len(rows)

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
        ((view_name, view),) = joint.views.items()
        for name, (weight, term) in self.method.sample_terms.items():
            if term.view != view_name:
                continue
            count = joint.targets if term.per == "target" else len(view)
            value = term.loss(self.learner, rows).float() / max(1, count)
            metrics[name] = metrics.get(name, 0.0) + value.item()
            total = total + weight * value
        return total

    def _rows(self, part: Pass, ids: Tensor, mask: Tensor | None, reading: Reading) -> Rows:
        (view,) = part.joint.views.values()
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

        Args:
            passes: Those of this rank.
            parts: Their vectors.
            batch: All views of the step.
        """
        vectors: dict[str, Tensor] = {}
        for joint in {id(part.joint): part.joint for part in passes}.values():
            mine = [index for index, part in enumerate(passes) if part.joint is joint]
            places = np.concatenate([passes[index].rows for index in mine])
            rows = torch.cat([parts[index] for index in mine])
            rows = self.ranks.joined(rows, torch.from_numpy(places), len(joint.tokens))
            sizes = [len(view) for view in joint.views.values()]
            vectors |= dict(zip(joint.views, rows.split(sizes), strict=True))
        if self.method.head_first:
            vectors = on_views(self.learner.head, vectors)
        for name, segments in self.method.aggregate.items():
            vectors[name] = weighted_sums(vectors[segments], batch.views[segments])
        return vectors if self.method.head_first else on_views(self.learner.head, vectors)


@dataclass(frozen=True)
class RunningStep:
    """One step. Each pass sets its own seed of `of_passes`, so a repetition draws the same.

    Passes are numbered over all ranks, so no two ranks draw the same. The head and the loss have
    the seed `of_loss`, the same for any number of passes. `metrics` and
    `vectors` are complete after the last pass.
    """

    job: GradientJob
    batch: Batch
    passes: Sequence[Pass]
    of_loss: int
    of_passes: Sequence[int]
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    vectors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @cached_property
    def own(self) -> list[int]:
        """Return the indices of this rank's passes."""
        rank = self.job.ranks.rank
        return [index for index, part in enumerate(self.passes) if part.rank == rank]

    def encode(self, number: int, with_loss: bool) -> tuple[Tensor, Tensor | None]:
        """Return the vectors and the own loss of a pass of this rank (`Encode`)."""
        index = self.own[number]
        self._seed(self.of_passes[index])
        metrics = self.metrics if with_loss else None
        return self.job.encoded(self.passes[index], metrics, partial(self._loss_if, index))

    def loss(self, parts: list[Tensor]) -> Tensor:
        """Return this rank's share of the loss between all rows (`Loss`)."""
        vectors, value, metrics = self._vectors_and_loss(parts)
        self.vectors.update({name: rows.detach() for name, rows in vectors.items()})
        self.metrics.update(metrics)
        return self.job.ranks.share(value)

    def _loss_if(self, index: int, rows: Tensor) -> Tensor:
        """Return the loss for these vectors of a pass that is being encoded.

        The pass continues with its own seed, so its later reads repeat the same dropout.
        """
        parts: list[Tensor] = []
        with torch.no_grad():
            for k, part in enumerate(self.passes):
                self._seed(self.of_passes[k])
                parts.append(rows if k == index else self.job.encoded(part, None, None)[0])
        with torch.autocast(rows.device.type, enabled=False):
            _, value, _ = self._vectors_and_loss([part.float() for part in parts])
        self._seed(self.of_passes[index])
        return value

    def _vectors_and_loss(
        self, parts: Sequence[Tensor]
    ) -> tuple[dict[str, Tensor], Tensor, Mapping[str, float]]:
        """Return every view's vectors, their loss and its metrics."""
        self._seed(self.of_loss)
        own = [self.passes[index] for index in self.own]
        vectors = self.job.by_view(own, parts, self.batch)
        return vectors, *loss_of(self.job.method, vectors, self.batch, self.job.learner)

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
