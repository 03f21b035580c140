"""IS-BERT's convolutions over token states."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

KERNELS = (1, 3, 5)
"""Tokens that one state looks at (Zhang et al. 2020)."""


class TokenCNN(nn.Module):
    """Token states of the same width that know their neighbours, one third by each kernel.

    256 channels a kernel at width 768 and no activation between, as in the code. Padding counts
    as nothing: its states enter and leave as zeros.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        count = len(KERNELS)
        widths = [dim // count + (index < dim % count) for index in range(count)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(dim, width, kernel, padding=kernel // 2)
            for width, kernel in zip(widths, KERNELS, strict=True)
        )

    def forward(
        self, states: Float[Tensor, "rows time dim"], mask: Int[Tensor, "rows time"]
    ) -> Float[Tensor, "rows time dim"]:
        real = mask.unsqueeze(-1)
        columns = (states * real).transpose(1, 2)
        seen = torch.cat([convolution(columns) for convolution in self.convolutions], dim=1)
        return seen.transpose(1, 2) * real
