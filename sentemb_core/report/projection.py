"""Two axes on which the vectors of every round can be compared by eye."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32


def common_axes(
    vectors_by_round: Sequence[Float32[np.ndarray, "_ dim"]], n: int = 2
) -> list[Float32[np.ndarray, "_ _"]]:
    """Coordinates of every round's vectors on the first `n` principal axes of all of them.

    One centre and one set of axes for all rounds, so a point that moves has moved. The sign of an
    axis is free; here the largest loading is positive, so equal input gives equal output. The axes
    are eigenvectors of the [dim, dim] scatter: an SVD of all rows took most of a report's time.

    Args:
        vectors_by_round: per round float32 [sentences, dim], one dim for all; at least `n` rows
            in all and dim >= n.
        n: axes to keep.

    Returns:
        Per round float32 [sentences, n].
    """
    everything = np.concatenate(vectors_by_round).astype(np.float64)
    centre = everything.mean(axis=0)
    around = everything - centre
    axes = np.linalg.eigh(around.T @ around)[1][:, : -n - 1 : -1].T
    largest = np.abs(axes).argmax(axis=1, keepdims=True)
    axes = axes * np.sign(np.take_along_axis(axes, largest, axis=1))
    return [((vectors - centre) @ axes.T).astype(np.float32) for vectors in vectors_by_round]
