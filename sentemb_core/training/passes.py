"""Texts of similar length go through the encoder together."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.heap import trim_heap

Groups = Sequence[Int64[np.ndarray, " _"]]
"""Which rows each group holds; together all rows, each once."""


def length_groups(
    lengths: Int64[np.ndarray, " rows"], slack: int, largest: int | None = None
) -> Groups:
    """Rows by falling length, cut where one more would waste more than a new group costs.

    Args:
        lengths: Tokens of every row.
        slack: Padding tokens a group may hold: what one more pass through the encoder costs.
        largest: Rows of a group at most.
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
"""(group, whether its own loss is wanted) -> its vectors [rows, ...] and that loss, if it has one.
Two calls must give the same vectors, dropout included."""

Loss = Callable[[list[Tensor]], Tensor]
"""The loss between all rows, from the vectors of every group."""


def plain_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """Backpropagate through all groups at once; every activation stays in memory."""
    read = [encode(group, True) for group in range(groups)]
    value = loss([vectors for vectors, _ in read])
    for _, own in read:
        value = value if own is None else value + own
    value.backward()
    return value.detach()


def cached_gradients(encode: Encode, groups: int, loss: Loss) -> Tensor:
    """The same gradients with the activations of one group at a time (GradCache, Gao et al. 2021).

    First all vectors without a graph, then the loss and its gradient at the vectors, then every
    group again with a graph: its vectors' gradient is what the loss left there, and its own loss
    joins in. Parameters of the loss itself (heads) get theirs in the middle. Where dropout is the
    augmentation the second pass must repeat the first one's draws, or the gradients are wrong.

    Groups of many shapes leave holes in the heap: trimmed before the forwards and before the loss,
    the peak at 3,200 pairs is 1.2 times that at 128, where it was 1.3
    (`benchmarks/training.py --memory`).
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
