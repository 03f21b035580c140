"""DiffCSE's discriminator: it knows the edited sentence and, by its vector, the original."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.copies import twin
from sentemb_core.heads.layers import entrance, layers_of, with_first
from sentemb_core.heads.weights import draw_weights

Edit = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(ids, mask, masked ids) -> edited ids, all [rows, time]: a `Generator`."""


class Discriminator(nn.Module):
    """A second encoder that tells replaced tokens from original ones.

    Args:
        encoder: Its weights at the start.
        edit: Makes the sentences it judges.
    """

    def __init__(self, encoder: Encoder, edit: Edit) -> None:
        super().__init__()
        layers_of(encoder)
        self.edit = edit
        self.encoder = twin(encoder)
        self.entrance = entrance(encoder)
        self.classifier = nn.Linear(encoder.hidden_dim, 2)
        draw_weights(self.classifier)

    def forward(
        self,
        vectors: Float[Tensor, "rows dim"],
        edited: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
    ) -> Float[Tensor, "rows time 2"]:
        """Logits of original and replaced; the vector stands for the first token's embedding."""
        knowing = self.entrance(vectors)
        reading = self.encoder.read(
            edited, mask, layers=True, edit=lambda states: with_first(knowing, states)
        )
        return self.classifier(reading.layers[-1])

    def loss(
        self,
        vectors: Float[Tensor, "rows dim"],
        ids: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
        inputs: Int[Tensor, "rows time"],
    ) -> Float[Tensor, ""]:
        """The sum over real tokens; padding never counts (in DiffCSE's code it does).

        Args:
            vectors: Of the sentences.
            ids: The sentences.
            mask: 1 on real tokens.
            inputs: The sentences with masks in them.
        """
        edited = self.edit(ids, mask, inputs)
        real = mask.bool()
        logits = self(vectors, edited, mask)[real].float()
        return F.cross_entropy(logits, (edited != ids)[real].long(), reduction="sum")
