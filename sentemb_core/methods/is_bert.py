"""IS-BERT (Zhang et al. 2020): a sentence shares information with its own tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.config.methods import ISBERT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.forward_passes import token_features
from sentemb_core.methods.parts.logistic import mutual_information
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import require_transformer
from sentemb_core.methods.parts.views import first


def is_bert(_: ISBERT, encoder: Encoder) -> Method:
    """Jensen-Shannon estimate over token features of small convolutions; a sentence is their mean.

    The convolutions are dropped at the end: the saved encoder is the backbone with its own pooling.
    """
    require_transformer(encoder, "is_bert")
    return Method(
        name="is_bert",
        pairs=identity,
        views={"tokens": first},
        forward_passes={"tokens": token_features("cnn")},
        terms={"information": (1.0, mutual_information("tokens"))},
        networks=lambda encoder: {"cnn": TokenCNN(encoder.hidden_dim)},
    )


KERNELS = (1, 3, 5)
"""Kernel widths of the convolutions in tokens (Zhang et al. 2020)."""


class TokenCNN(nn.Module):
    """Convolutions over token states with equal width, one third of the channels per kernel.

    256 channels per kernel at width 768, without an activation, as in the code. States of
    padding are zero before and after.
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
