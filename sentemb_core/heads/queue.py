"""Vectors of past steps that serve as negatives (ESimCSE)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Queue(nn.Module):
    """The newest `size` vectors. It lives in buffers, so a checkpoint keeps it.

    Args:
        size: Vectors at most; 0: it stays empty.
        dim: Their width.
    """

    vectors: Tensor
    filled: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @property
    def keys(self) -> Float[Tensor, "filled dim"]:
        """Oldest first; a view of what the next push overwrites."""
        return self.vectors[: int(self.filled)]

    @torch.no_grad()
    def push(self, vectors: Float[Tensor, "rows dim"]) -> None:
        """Add these; the oldest leave."""
        line = torch.cat([self.keys, vectors.to(self.vectors)])
        kept = line[max(0, len(line) - len(self.vectors)) :]
        self.vectors[: len(kept)] = kept
        self.filled.fill_(len(kept))
