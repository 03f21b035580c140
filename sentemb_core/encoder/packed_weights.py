"""Weights of linear layers in oneDNN's order of blocks, for reading many texts on a CPU."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.types import Precision

FEWEST_TOKENS = 1 << 14
"""Of fewer tokens, ordering the weights takes more than a hundredth of the time."""

MOST_WEIGHTS = 1 << 28
"""Of more weights (1 GiB), a second copy takes too much memory."""


@contextmanager
def packed_weights(encoder: Encoder, dtype: Precision, tokens: int) -> Generator[None]:
    """Let linear layers multiply by ordered copies of their weights, in inference mode.

    MiniLM reads 1.15 times as many sentences a second (`benchmarks/runtimes.py`, AVX-512 of AMD),
    and 1.03 times as many by AVX2. Vectors differ by rounding.

    Args:
        encoder: It does not change inside.
        dtype: Precision of the products.
        tokens: Tokens to read; few of them are read with the weights as they are.
    """
    layers = _layers(encoder, dtype) if tokens >= FEWEST_TOKENS else []
    for layer in layers:
        vars(layer)["forward"] = _Packed(layer, dtype)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _layers(encoder: Encoder, dtype: Precision) -> list[nn.Linear]:
    """Return the layers to pack; none where oneDNN does not multiply in this precision."""
    if encoder.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return []
    if dtype == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return []
    layers = [
        module
        for module in encoder.backbone.modules()
        if type(module) is nn.Linear and "forward" not in vars(module)
    ]
    return layers if sum(layer.weight.numel() for layer in layers) <= MOST_WEIGHTS else []


class _Packed:
    """The forward pass of a linear layer with ordered weights."""

    def __init__(self, layer: nn.Linear, dtype: Precision) -> None:
        self.dtype = torch.bfloat16 if dtype == "bfloat16" else torch.float32
        with torch.inference_mode():
            own = {name: tensor.to(self.dtype) for name, tensor in layer.state_dict().items()}
            self.weight = torch.ops.mkldnn._reorder_linear_weight(own["weight"])
            self.bias = own.get("bias")

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(
            rows.to(self.dtype), self.weight, self.bias, "none", [], ""
        )
