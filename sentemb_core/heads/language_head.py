"""From token states to the tokens that belong there."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.layers import shape_of
from sentemb_core.heads.weights import draw_weights
from sentemb_core.views.batch import IGNORED

AT_ONCE = 1 << 22
"""Logits that exist at a time: 16 MB of float32. 1,700 targets of 16,000 tokens in bfloat16 took
0.43 CPU s in one piece and 0.26 in pieces, 1,300 of 30,522 0.76 and 0.64 (forward and backward):
larger blocks are mapped anew at every step. `torch.nn.functional.linear_cross_entropy` is slower
under autocast (1.2 s), where it stays in float32."""


class LanguageHead(nn.Module):
    """BERT's: dense, GELU, layer norm, and a token table that the caller brings.

    Tied to a token embedding, it adds no second table to memory, and the checkpoint holds each
    weight once.

    Args:
        encoder: Whose states it reads.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        shape = shape_of(encoder)
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size)
        self.norm = nn.LayerNorm(shape.hidden_size, eps=shape.layer_norm_eps)
        draw_weights(self)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(shape.vocab_size))

    def forward(
        self, states: Float[Tensor, "n dim"], table: Float[Tensor, "vocabulary dim"]
    ) -> Float[Tensor, "n vocabulary"]:
        """Logits in float32."""
        return F.linear(self.norm(F.gelu(self.dense(states))), table, self.bias).float()

    def loss(
        self,
        states: Float[Tensor, "rows time dim"],
        targets: Int[Tensor, "rows time"],
        table: Float[Tensor, "vocabulary dim"],
    ) -> Float[Tensor, ""]:
        """The sum of -log p(target) over all targets but `IGNORED`; 0 if there is none.

        Logits are the largest tensor of all: they are made for the targets alone, `AT_ONCE` at a
        time, and again in the backward pass.
        """
        wanted = targets != IGNORED
        rows = max(1, AT_ONCE // len(table))
        pieces = list(zip(states[wanted].split(rows), targets[wanted].split(rows), strict=True))
        if len(pieces) == 1:
            return self._surprise(*pieces[0], table)
        losses = [
            checkpoint(self._surprise, *piece, table, use_reentrant=False) for piece in pieces
        ]
        return torch.stack(losses).sum()

    def _surprise(
        self,
        states: Float[Tensor, "n dim"],
        targets: Int[Tensor, " n"],
        table: Float[Tensor, "vocabulary dim"],
    ) -> Float[Tensor, ""]:
        return F.cross_entropy(self(states, table), targets, reduction="sum")
