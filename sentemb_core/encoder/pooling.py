"""Pooling: the hidden states of a sentence's tokens become one vector."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

TWO_LAYERS: dict[str, tuple[int, int]] = {
    "first_last_mean": (0, -1),
    "last_two_mean": (-2, -1),
    "first_block_last_mean": (1, -1),
}
"""Indices of the averaged hidden_states. "First-last average" has two meanings: the embedding layer
(0) in ESimCSE, SNCSE and DiffCSE, the first block (1) in BERT-whitening and today's SimCSE.
BERT-flow averages the last two."""


def mean_pool(
    hidden: Float[Tensor, "batch time dim"], mask: Int[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch dim"]:
    """Mean of the states of real tokens (mask 1), summed in float32; zero without tokens."""
    hidden = hidden.float()
    if mask is None:
        return hidden.sum(1) / max(hidden.shape[1], 1)
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def last_token(
    hidden: Float[Tensor, "batch time dim"], mask: Int[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch dim"]:
    """State of the last real token (mask 1), in float32, wherever the padding is."""
    if mask is None:
        return hidden[:, -1].float()
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (mask * places).argmax(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last].float()


def two_layer_mean(
    lower: Float[Tensor, "batch time dim"],
    upper: Float[Tensor, "batch time dim"],
    mask: Int[Tensor, "batch time"] | None = None,
) -> Float[Tensor, "batch dim"]:
    """Mean over the real tokens of the mean of two layers."""
    return mean_pool(torch.add(lower, upper) / 2, mask)
