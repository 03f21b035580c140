"""Passes through an encoder: rows grouped by length, gradients at once or pass by pass."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.heap import trim_heap

Groups = Sequence[Int64[np.ndarray, " _"]]
"""The rows of each group: all rows, each once."""


def length_groups(
    lengths: Int64[np.ndarray, " rows"], slack: int, largest: int | None = None
) -> Groups:
    """Return groups of rows of similar length, the longest first, with at most `slack` padding.

    Args:
        lengths: Tokens of every row.
        slack: Padding tokens that cost as much as one more pass through the encoder.
        largest: Most rows of a group.
    """
    order = np.argsort(-lengths, kind="stable")
    groups: list[np.ndarray] = []
    start, padding = 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        padding += int(lengths[order[start]]) - length
        if padding > slack or (largest is not None and place - start >= largest):
            groups.append(order[start:place])
            start, padding = place, 0
    groups.append(order[start:])
    return groups


Encode = Callable[[int, bool], tuple[Tensor, Tensor | None]]
"""(group, whether to compute its own loss) -> vectors [rows, ...] and that loss, if it has one.
Two calls must return equal vectors, also with dropout."""

Loss = Callable[[list[Tensor]], Tensor]
"""The vectors of every group -> the loss between all rows."""


def plain_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """Backpropagate through all groups at once and return the loss. Keeps every activation."""
    encoded = [encode(group, True) for group in range(groups)]
    value = loss([vectors for vectors, _ in encoded])
    for _, own in encoded:
        value = value if own is None else value + own
    value.backward()
    return value.detach()


def cached_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """Return the same loss and gradients with the activations of one group at a time.

    This is GradCache (Gao et al. 2021):

    1. Encode all groups without a graph.
    2. Compute the loss and its gradient at the vectors. Heads get their gradients here.
    3. Encode each group again with a graph; backpropagate the gradient of its vectors, and its own
       loss. Dropout must repeat the draws of step 1.

    Groups of many shapes leave holes in the heap. With the heap trimmed before steps 1 and 2, the
    memory peak at 3,200 pairs is 1.2 times that at 128 (1.3 without; `benchmarks/training.py`).
    """
    trim_heap()
    with torch.no_grad():
        vectors = [encode(group, False)[0] for group in range(groups)]
    trim_heap()
    for part in vectors:
        part.requires_grad_()
    value = loss(vectors)
    value.backward()
    total = value.detach()
    for group, part in enumerate(vectors):
        again, own = encode(group, True)
        if again.requires_grad and part.grad is not None:
            again.backward(part.grad, retain_graph=own is not None)
        if own is not None:
            own.backward()
            total = total + own.detach()
    return total
