"""From token states to the tokens that belong there."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.layers import shape_of
from sentemb_core.heads.weights import draw_weights
from sentemb_core.views.batch import IGNORED


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

        Logits are made for the targets alone: over all tokens they would be the largest tensor.
        """
        wanted = targets != IGNORED
        return F.cross_entropy(self(states[wanted], table), targets[wanted], reduction="sum")
