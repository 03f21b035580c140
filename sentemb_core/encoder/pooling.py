"""Hidden states of a sentence's tokens -> one vector (METHODS.md 0.2)."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Pooling = Literal["mean", "cls", "cls_before_pooler", "first_last_mean"]
"""`mean`: of the last layer; `cls`: BERT's own dense + tanh on the first token;
`cls_before_pooler`: the first token itself; `first_last_mean`: mean of the embedding layer
(hidden_states[0], as in ESimCSE, SNCSE and DiffCSE) and the last layer."""


def mean_pool(
    hidden: Float[Tensor, "batch time dim"], mask: Int[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch dim"]:
    """Average of the real tokens' states, summed in float32; zero where there is no token.

    Args:
        hidden: States of any float type.
        mask: 1 on real tokens, 0 on padding; none when every token is real.
    """
    hidden = hidden.float()
    if mask is None:
        return hidden.sum(1) / max(hidden.shape[1], 1)
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def first_last_mean(
    first: Float[Tensor, "batch time dim"],
    last: Float[Tensor, "batch time dim"],
    mask: Int[Tensor, "batch time"] | None = None,
) -> Float[Tensor, "batch dim"]:
    """Average over the real tokens of the mean of two layers (BERT-flow's first-last average)."""
    return mean_pool(torch.add(first, last) / 2, mask)
