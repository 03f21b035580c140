"""DropHead (Zhou et al. 2020), which Mirror-BERT augments by: whole attention heads are silent."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.method import Learner, Reader

_PROJECTION = re.compile(r"\.(attention\.(output\.dense|attn\.o|out_lin|dense)|attn\.Wo)$")
"""What mixes the heads of a layer: in BERT and RoBERTa, MPNet, DistilBERT, ALBERT, ModernBERT."""


def drophead(rate: float) -> Reader:
    """The encoder, with every head of every layer silent in a row with probability `rate`.

    As in the official code the remaining heads of a row grow by heads / remaining; a row of which
    no head remains is 0 (there: not a number). It does not depend on train mode.

    Args:
        rate: Mirror-BERT's is .2, with dropout 0.

    Raises:
        RecipeError: No head would remain.
    """
    if not 0 <= rate < 1:
        raise RecipeError(
            f"Some heads must remain; found drophead rate {rate}: take .2 as Mirror-BERT does"
        )

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with _silenced(learner.encoder, rate):
            return learner.encoder.read(ids, mask, layers=layers)

    return reader


@contextmanager
def _silenced(encoder: Encoder, rate: float) -> Generator[None]:
    """Hooks in front of every projection, while it lasts."""
    projections = projections_of(encoder)
    heads = int(cast(Any, encoder.backbone).config.num_attention_heads)

    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (without_heads(inputs[0], heads, rate), *inputs[1:])

    hooks = [projection.register_forward_pre_hook(hook) for projection in projections]
    try:
        yield
    finally:
        for registered in hooks:
            registered.remove()


def projections_of(encoder: Encoder) -> list[nn.Module]:
    """What mixes the heads, layer by layer.

    Raises:
        RecipeError: the encoder's layers are none that are known.
    """
    layers = cast(nn.Module, encoder.backbone)
    found = [module for name, module in layers.named_modules() if _PROJECTION.search(name)]
    if not found:
        raise RecipeError(
            "Drophead silences the heads of a transformer whose layers it knows; this encoder "
            f"({type(encoder.backbone).__name__}) has none of them: take dropout or span masking"
        )
    return found


def without_heads(
    context: Float[Tensor, "rows time width"], heads: int, rate: float
) -> Float[Tensor, "rows time width"]:
    """Attention's output, head by head along `width`, with random heads 0 and the rest grown."""
    kept = (torch.rand(len(context), 1, heads, 1, device=context.device) >= rate).to(context.dtype)
    grown = kept * heads / kept.sum(2, keepdim=True).clamp(min=1)
    return (context.unflatten(2, (heads, -1)) * grown).flatten(2)
