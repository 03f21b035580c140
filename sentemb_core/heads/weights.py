"""How new parameters begin."""

from typing import cast

from torch import Tensor, nn


def draw_weights(module: nn.Module) -> None:
    """All weights of `module` anew, as BERT draws them: std .02, biases 0, layer norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and cast(Tensor | None, part.bias) is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            nn.init.zeros_(part.weight[part.padding_idx])
        if isinstance(part, nn.LayerNorm):
            part.reset_parameters()
