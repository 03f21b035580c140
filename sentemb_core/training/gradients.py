"""One step's gradients: a batch through its readers, the head and the method's losses."""

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
"""Padding tokens that a pass of a transformer may hold. On an Intel with AMX, in bfloat16, batches
of 128 sentences train at 1.05 to 1.5 times the speed of a slack of 64, in .5 to 1 times its memory
(MiniLM, and ConSERT on 2 layers); 4,096 is no faster there, and pads more where texts are long."""

CUDA_SLACK = 8192
"""The same on CUDA, where a pass costs its launches: on an H200 MiniLM trains in batches of 64
pairs at 1.7 times the speed of a slack of 1,024 (1.4 in bfloat16), of 256 at 1.5 (2.6) times
(`benchmarks/gpu.py`); by 65,536 it is no faster."""

STATIC_SLACK = 4096
"""The same of a static table: one more pass costs a dense gradient of the whole table, as much as
some thousand tokens."""


@dataclass(frozen=True)
class Step:
    """What one step came to.

    Attributes:
        loss: All terms together.
        metrics: Of every term by its name, and what the terms report.
        vectors: Of every view after the head, detached.
    """

    loss: float
    metrics: dict[str, float]
    vectors: Mapping[str, Tensor]


@dataclass(frozen=True)
class Share:
    """Views that one reader reads together, as one list of rows.

    Attributes:
        reader: Of all.
        views: By name; a single one where its rows have losses of their own.
        own_losses: Whether they have.
    """

    reader: ForwardPass | FullBatchForward
    views: Mapping[str, View]
    own_losses: bool

    @property
    def view(self) -> View:
        """The one whose rows have losses of their own."""
        (view,) = self.views.values()
        return view

    @property
    def name(self) -> str:
        """Of this view."""
        (name,) = self.views
        return name

    @cached_property
    def targets(self) -> int:
        """Of this view."""
        return sum(int((row != IGNORED).sum()) for row in self.view.targets or ())

    @cached_property
    def tokens(self) -> list[Tokens]:
        return [tokens for view in self.views.values() for tokens in view.tokens]


@dataclass(frozen=True)
class Pass:
    """Rows of one share that go through its reader at once."""

    share: Share
    rows: Int64[np.ndarray, " rows"]


@dataclass(frozen=True)
class GradientJob:
    """All that stays the same from step to step.

    Attributes:
        learner: Its parameters receive gradients.
        method: Gives the losses.
        bfloat16: Autocast of forwards; losses between rows are always float32.
        seed: Of dropout; a step derives its own from it.
    """

    learner: Learner
    method: Method
    bfloat16: bool
    seed: int

    def run(self, batch: Batch, step: int, chunk: int | None) -> Step:
        """Leave the gradients of step `step` in the parameters.

        Views of one reader go through it together, in passes of similar length, or at once.

        Args:
            batch: The step's views.
            step: Counted from 0.
            chunk: Rows encoded at once under a gradient cache; none keeps all activations.
        """
        shares = list(self._shares(batch))
        passes = [part for share in shares for part in self._passes(share, chunk)]
        of_loss, *of_passes = (
            np.random.SeedSequence([self.seed, 2, step]).generate_state(len(passes) + 1).tolist()
        )
        now = UnderWay(self, batch, passes, of_loss, of_passes)
        gradients = plain_gradients if chunk is None else cached_gradients
        loss = gradients(now.encode, len(passes), now.loss)
        return Step(loss.item(), now.metrics, now.vectors)

    def _shares(self, batch: Batch) -> Iterator[Share]:
        """Rows with losses of their own apart: they alone need the states of all layers."""
        with_losses = {term.view for _, term in self.method.sample_terms.values()}
        together: dict[ForwardPass | FullBatchForward, dict[str, View]] = {}
        for name in self.method.views:
            reader = self.method.forward_passes.get(name, plainly)
            if name in with_losses:
                yield Share(reader, {name: batch.views[name]}, own_losses=True)
            else:
                together.setdefault(reader, {})[name] = batch.views[name]
        for reader, views in together.items():
            yield Share(reader, views, own_losses=False)

    def _passes(self, share: Share, chunk: int | None) -> Iterator[Pass]:
        lengths = np.fromiter(map(len, share.tokens), np.int64)
        if isinstance(share.reader, FullBatchForward):
            groups = [np.arange(len(lengths))]
        else:
            groups = length_groups(lengths, self._slack(share), chunk)
        for rows in groups:
            yield Pass(share, rows)

    def _slack(self, share: Share) -> int:
        """Padding tokens worth one pass more; any number where they are not computed.

        On two cores one packed pass trains SimCSE 7 to 12 % faster than passes of
        `TRANSFORMER_SLACK` (MiniLM, 2 layers), HiCL on whole posts 1 to 5 % slower.
        """
        encoder = self.learner.encoder
        if share.reader is plainly and not share.own_losses and encoder.packs:
            return sys.maxsize
        if encoder.kind == "static":
            return STATIC_SLACK
        return TRANSFORMER_SLACK if encoder.device.type == "cpu" else CUDA_SLACK

    def encoded(
        self, part: Pass, metrics: dict[str, float] | None, loss: LossOfRows | None
    ) -> tuple[Tensor, Tensor | None]:
        """Vectors of a pass, and the weighted loss of its single rows if `metrics` wants it.

        Without a `loss` a view that asks for it is read plainly.
        """
        ids, mask = self._padded(_chosen(part.share.tokens, part.rows))
        reader, layers = part.share.reader, part.share.own_losses
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.bfloat16):
            if not isinstance(reader, FullBatchForward):
                reading = reader(self.learner, ids, mask, layers)
            elif loss is None:
                reading = plainly(self.learner, ids, mask, layers)
            else:
                reading = reader.run(self.learner, ids, mask, layers, loss)
            own = None
            if part.share.own_losses and metrics is not None:
                rows = self._rows(part, ids, mask, reading)
                own = self._own_loss(part.share, rows, metrics)
        return reading.pooled.float(), own

    def _own_loss(self, share: Share, rows: Rows, metrics: dict[str, float]) -> Tensor:
        """This pass's part of the losses of single rows: all passes together make their mean."""
        total = torch.zeros((), device=rows.ids.device)
        for told, (weight, term) in self.method.sample_terms.items():
            if term.view != share.name:
                continue
            count = share.targets if term.per == "target" else len(share.view)
            value = term.loss(self.learner, rows).float() / max(1, count)
            metrics[told] = metrics.get(told, 0.0) + value.item()
            total = total + weight * value
        return total

    def _rows(self, part: Pass, ids: Tensor, mask: Tensor | None, reading: Reading) -> Rows:
        view = part.share.view
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
        """Every view's vectors in its own order, added up where asked, after the head.

        The sums go through it, unless their rows did (`Method.head_first`).
        """
        vectors: dict[str, Tensor] = {}
        for share in {id(part.share): part.share for part in passes}.values():
            mine = [index for index, part in enumerate(passes) if part.share is share]
            place = np.argsort(np.concatenate([passes[index].rows for index in mine]))
            rows = torch.cat([parts[index] for index in mine])[torch.from_numpy(place)]
            sizes = [len(view) for view in share.views.values()]
            vectors |= dict(zip(share.views, rows.split(sizes), strict=True))
        if self.method.head_first:
            vectors = on_views(self.learner.head, vectors)
        for name, segments in self.method.aggregate.items():
            vectors[name] = added_up(vectors[segments], batch.views[segments])
        return vectors if self.method.head_first else on_views(self.learner.head, vectors)


@dataclass(frozen=True)
class UnderWay:
    """One step. Whatever reads or judges seeds first, so that doing it again draws the same.

    Attributes:
        job: Reads the passes.
        batch: The step's views.
        passes: All that it reads.
        of_loss: Seed of what draws behind the passes, however many there are.
        of_passes: Seed of each pass.
        metrics: As in `Step`, once all is read and judged.
        vectors: The same.
    """

    job: GradientJob
    batch: Batch
    passes: Sequence[Pass]
    of_loss: int
    of_passes: Sequence[int]
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    vectors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def encode(self, index: int, with_loss: bool) -> tuple[Tensor, Tensor | None]:
        """Vectors of a pass, and its own loss (`cached_gradients.Encode`)."""
        self._seed_pass(index)
        told = self.metrics if with_loss else None
        return self.job.encoded(self.passes[index], told, partial(self._loss_if, index))

    def loss(self, parts: list[Tensor]) -> Tensor:
        """The loss between all rows (`cached_gradients.Loss`)."""
        vectors, value, told = self._judged(parts)
        self.vectors.update({name: rows.detach() for name, rows in vectors.items()})
        self.metrics.update(told)
        return value

    def _loss_if(self, index: int, rows: Tensor) -> Tensor:
        """The loss, were these the vectors of a pass that is being read.

        The pass goes on with its own seed: the moved rows drop what those of the gradient did.
        """
        with torch.no_grad():
            parts = [rows if k == index else self._plain(k) for k in range(len(self.passes))]
        with torch.autocast(rows.device.type, enabled=False):
            _, value, _ = self._judged([part.float() for part in parts])
        self._seed_pass(index)
        return value

    def _plain(self, index: int) -> Tensor:
        """Vectors of a pass that asks for no loss."""
        self._seed_pass(index)
        return self.job.encoded(self.passes[index], None, None)[0]

    def _judged(
        self, parts: Sequence[Tensor]
    ) -> tuple[dict[str, Tensor], Tensor, Mapping[str, float]]:
        """Every view's vectors, their loss and what it tells."""
        self._seed(self.of_loss)
        vectors = self.job.by_view(self.passes, parts, self.batch)
        return vectors, *loss_of(self.job.method, vectors, self.batch, self.job.learner)

    def _seed_pass(self, index: int) -> None:
        self._seed(self.of_passes[index])

    def _seed(self, seed: int) -> None:
        """`torch.manual_seed` formats a stack trace for an idle CUDA, a millisecond each time."""
        torch.default_generator.manual_seed(seed)
        if self.job.learner.encoder.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def added_up(vectors: Tensor, view: View) -> Tensor:
    """[rows, dim] to [owners, dim]: the rows of each owner by their weights."""
    assert view.owner is not None, "an aggregated view names owners"
    assert view.weight is not None, "an aggregated view has weights"
    owner = torch.from_numpy(view.owner).to(vectors.device)
    weight = torch.from_numpy(view.weight).to(vectors)
    sums = vectors.new_zeros(int(view.owner.max()) + 1, vectors.shape[1])
    return sums.index_add(0, owner, weight[:, None] * vectors)


def _chosen(sequences: Sequence[Tokens], rows: Int64[np.ndarray, " rows"]) -> list[Tokens]:
    return [sequences[row] for row in rows.tolist()]
