"""A loss that asks for a distance between similarities, and nothing beyond it."""

from jaxtyping import Float
from torch import Tensor


def bidirectional_margin(
    positive: Float[Tensor, " n"], soft_negative: Float[Tensor, " n"], *, low: float, high: float
) -> Float[Tensor, ""]:
    """A soft negative is less similar than the positive, by at least `low` and at most `high`.

    mean[ReLU(d + low) + ReLU(-d - high)] with d = soft negative - positive (SNCSE, Wang et al.
    2022; .1 and .3 there).

    Args:
        positive: Cosine of each anchor and its positive.
        soft_negative: Cosine of each anchor and its negated sentence.
        low: Smallest gap that costs nothing.
        high: Largest gap that costs nothing.
    """
    difference = soft_negative - positive
    return ((difference + low).relu() + (-difference - high).relu()).mean()
