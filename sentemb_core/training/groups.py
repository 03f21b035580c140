"""Texts of similar length go through the encoder together."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

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
