"""One step's gradients: a batch through the encoder, the head and the method's loss."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.method import Method, loss_of
from sentemb_core.pairs.documents import Tokens
from sentemb_core.training.cached_gradients import cached_gradients, plain_gradients
from sentemb_core.training.groups import length_groups, padded
from sentemb_core.views.batch import Batch

TRANSFORMER_SLACK = 64
"""Measured on MiniLM, batches of 128-1,024 sentences: 16-256 are alike, 0 is 1-25 % slower."""

STATIC_SLACK = 4096
"""A pass more costs a dense gradient of the whole table: as much as some thousand tokens."""


@dataclass(frozen=True)
class GradientJob:
    """All that stays the same from step to step.

    Attributes:
        encoder: Its parameters receive gradients.
        head: On the loss side of a gradient cache, so it sees the batch as a whole.
        method: Gives the loss.
        bfloat16: Autocast of the encoder's forward; losses are always float32.
        seed: Of dropout; a step derives its own from it.
    """

    encoder: Encoder
    head: nn.Module
    method: Method
    bfloat16: bool
    seed: int

    def run(self, batch: Batch, step: int, chunk: int | None) -> tuple[float, dict[str, float]]:
        """Leave the gradients of step `step` in the parameters; return the loss and its metrics.

        All views go through the encoder together, in groups of similar length.

        Args:
            batch: The step's views.
            step: Counted from 0.
            chunk: Rows encoded at once under a gradient cache; none keeps all activations.
        """
        rows = [tokens for view in batch.views.values() for tokens in view.tokens]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        groups = length_groups(lengths, slack_of(self.encoder), chunk)
        seeds = np.random.SeedSequence([self.seed, 2, step]).generate_state(len(groups) + 1)
        device = next(self.encoder.parameters()).device
        metrics: dict[str, float] = {}

        def encode(index: int) -> Tensor:
            _seed(device, int(seeds[index]))  # both passes of a gradient cache draw the same
            return self._vectors([rows[row] for row in groups[index].tolist()], device)

        def loss(vectors: Tensor) -> Tensor:
            _seed(device, int(seeds[-1]))
            sizes = [len(view) for view in batch.views.values()]
            parts = zip(batch.views, vectors.split(sizes), strict=True)
            value, found = loss_of(
                self.method, {name: self.head(part) for name, part in parts}, batch
            )
            metrics.update(found)
            return value

        gradients = plain_gradients if chunk is None else cached_gradients
        return gradients(encode, groups, loss).item(), metrics

    def _vectors(self, sequences: list[Tokens], device: torch.device) -> Tensor:
        ids, mask = padded(sequences, self.encoder.pad_id)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            pooled = self.encoder(ids.to(device), mask if mask is None else mask.to(device))
        return pooled.float()


def slack_of(encoder: Encoder) -> int:
    """Padding tokens worth one pass more through the encoder."""
    return TRANSFORMER_SLACK if encoder.kind == "transformer" else STATIC_SLACK


def _seed(device: torch.device, seed: int) -> None:
    """`torch.manual_seed` formats a stack trace for an idle CUDA, a millisecond each time."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
