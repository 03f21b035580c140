"""An encoder without layers: one vector a token, a sentence is their mean."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class StaticTable(nn.Module):
    """Token vectors, no context, no order, no dropout."""

    def __init__(self, weights: Float[Tensor, "vocabulary dim"]) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(weights, freeze=False)

    @classmethod
    def random(cls, vocabulary: int, dim: int, seed: int) -> "StaticTable":
        """Vectors drawn from N(0, 0.05^2): small, so that the first steps set the directions."""
        generator = torch.Generator().manual_seed(seed)
        return cls(torch.randn(vocabulary, dim, generator=generator) * 0.05)

    def forward(
        self, ids: Int[Tensor, "batch time"], mask: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Means of the rows' token vectors, without ever holding the vectors of all tokens."""
        weights = self.embedding.weight
        if mask is None:
            return F.embedding_bag(ids, weights, mode="mean")
        real = mask.bool()
        starts = F.pad(real.sum(1).cumsum(0)[:-1], (1, 0))
        return F.embedding_bag(ids[real], weights, starts, mode="mean")
