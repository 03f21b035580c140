"""Gradients of a loss over many texts: in one piece, or group by group in flat memory."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

Encode = Callable[[int], Float[Tensor, "_ dim"]]
"""Group index -> its vectors. Two calls must give the same vectors, dropout included."""

Loss = Callable[[Float[Tensor, "rows dim"]], Float[Tensor, ""]]

Groups = Sequence[Int64[np.ndarray, " _"]]
"""Which rows each group holds; together all rows, each once."""


def plain_gradients(encode: Encode, groups: Groups, loss: Loss) -> Float[Tensor, ""]:
    """Backpropagate through all groups at once; every activation stays in memory."""
    value = loss(_in_order([encode(index) for index in range(len(groups))], groups))
    value.backward()
    return value.detach()


def cached_gradients(encode: Encode, groups: Groups, loss: Loss) -> Float[Tensor, ""]:
    """The same gradients with the activations of one group at a time (GradCache, Gao et al. 2021).

    First all vectors without a graph, then the loss and its gradient at the vectors, then every
    group again with a graph: its vectors' gradient is what the loss left there. Parameters of the
    loss itself (heads) get theirs in the middle. Where dropout is the augmentation the second
    pass must repeat the first one's draws, or the gradients are wrong (METHODS.md 0.4).
    """
    with torch.no_grad():
        vectors = _in_order([encode(index) for index in range(len(groups))], groups)
    vectors.requires_grad_()
    value = loss(vectors)
    value.backward()
    assert vectors.grad is not None
    for index, rows in enumerate(groups):
        encode(index).backward(vectors.grad[torch.from_numpy(rows)])
    return value.detach()


def _in_order(parts: list[Tensor], groups: Groups) -> Float[Tensor, "rows dim"]:
    place = torch.from_numpy(np.argsort(np.concatenate(groups)))
    return torch.cat(parts)[place]
