"""One step's gradients: a batch through its readers, the head and the method's losses."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.encoder.encoder import Reading
from sentemb_core.encoder.padding import padded
from sentemb_core.heads.on_views import on_views
from sentemb_core.methods.method import (
    AtOnce,
    Learner,
    LossOfRows,
    Method,
    Reader,
    Rows,
    loss_of,
    plainly,
)
from sentemb_core.pairs.documents import Tokens
from sentemb_core.training.cached_gradients import cached_gradients, plain_gradients
from sentemb_core.training.groups import length_groups
from sentemb_core.views.batch import IGNORED, Batch, View

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

    reader: Reader | AtOnce
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
        device = self.learner.encoder.device
        metrics: dict[str, float] = {}
        seen: dict[str, Tensor] = {}

        def encode(index: int, with_loss: bool) -> tuple[Tensor, Tensor | None]:
            _seed(device, of_passes[index])  # both passes of a gradient cache draw the same
            told = metrics if with_loss else None
            return self._encoded(passes[index], told, device, partial(loss_if, index))

        def loss_if(index: int, rows: Tensor) -> Tensor:
            with torch.no_grad():
                parts = [rows if k == index else unmoved(k) for k in range(len(passes))]
            with torch.autocast(device.type, enabled=False):
                _seed(device, of_loss)
                vectors = self._by_view(passes, [part.float() for part in parts], batch)
                value = loss_of(self.method, vectors, batch, self.learner)[0]
            _seed(device, of_passes[index])  # the moved rows drop what those of the gradient did
            return value

        def unmoved(index: int) -> Tensor:
            _seed(device, of_passes[index])
            return self._encoded(passes[index], None, device, None)[0]

        def loss(parts: list[Tensor]) -> Tensor:
            _seed(device, of_loss)  # however many passes there are
            vectors = self._by_view(passes, parts, batch)
            seen.update({name: rows.detach() for name, rows in vectors.items()})
            value, found = loss_of(self.method, vectors, batch, self.learner)
            metrics.update(found)
            return value

        gradients = plain_gradients if chunk is None else cached_gradients
        return Step(gradients(encode, len(passes), loss).item(), metrics, seen)

    def _shares(self, batch: Batch) -> Iterator[Share]:
        """Rows with losses of their own apart: they alone need the states of all layers."""
        with_losses = {term.view for _, term in self.method.sample_terms.values()}
        together: dict[Reader | AtOnce, dict[str, View]] = {}
        for name in self.method.views:
            reader = self.method.readers.get(name, plainly)
            if name in with_losses:
                yield Share(reader, {name: batch.views[name]}, own_losses=True)
            else:
                together.setdefault(reader, {})[name] = batch.views[name]
        for reader, views in together.items():
            yield Share(reader, views, own_losses=False)

    def _passes(self, share: Share, chunk: int | None) -> Iterator[Pass]:
        lengths = np.fromiter(map(len, share.tokens), np.int64)
        if isinstance(share.reader, AtOnce):
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

    def _encoded(
        self,
        part: Pass,
        metrics: dict[str, float] | None,
        device: torch.device,
        loss: LossOfRows | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Vectors of a pass, and the weighted loss of its single rows if `metrics` wants it.

        Without a `loss` a view that asks for it is read plainly.
        """
        ids, mask = self._padded(_chosen(part.share.tokens, part.rows), device)
        reader, layers = part.share.reader, part.share.own_losses
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            if not isinstance(reader, AtOnce):
                reading = reader(self.learner, ids, mask, layers)
            elif loss is None:
                reading = plainly(self.learner, ids, mask, layers)
            else:
                reading = reader.reader(self.learner, ids, mask, layers, loss)
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
            inputs = self._padded(_chosen(view.inputs, part.rows), ids.device)[0]
        targets = torch.full_like(ids, IGNORED)
        if view.targets is not None:
            targets = padded(_chosen(view.targets, part.rows), IGNORED)[0].to(ids.device)
        return Rows(ids, torch.ones_like(ids) if mask is None else mask, inputs, targets, reading)

    def _padded(
        self, sequences: Sequence[Tokens], device: torch.device
    ) -> tuple[Tensor, Tensor | None]:
        ids, mask = padded(sequences, self.learner.encoder.pad_id)
        return ids.to(device), mask if mask is None else mask.to(device)

    def _by_view(
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


def _seed(device: torch.device, seed: int) -> None:
    """`torch.manual_seed` formats a stack trace for an idle CUDA, a millisecond each time."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
