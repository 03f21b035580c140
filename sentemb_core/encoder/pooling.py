"""Hidden states of a sentence's tokens -> one vector."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

TWO_LAYERS: dict[str, tuple[int, int]] = {
    "first_last_mean": (0, -1),
    "last_two_mean": (-2, -1),
    "first_block_last_mean": (1, -1),
}
"""Which hidden_states are averaged. "First-last average" has two meanings: with the embedding layer
(0) in ESimCSE, SNCSE and DiffCSE, with the first block (1) in BERT-whitening and SimCSE today;
BERT-flow takes the last two."""


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


def two_layer_mean(
    lower: Float[Tensor, "batch time dim"],
    upper: Float[Tensor, "batch time dim"],
    mask: Int[Tensor, "batch time"] | None = None,
) -> Float[Tensor, "batch dim"]:
    """Average over the real tokens of the mean of two layers."""
    return mean_pool(torch.add(lower, upper) / 2, mask)
