"""Losses that ask for a distance between similarities, and nothing beyond it."""

import torch
from jaxtyping import Bool, Float
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


def hardest_negative_margin(
    logits: Float[Tensor, "n m"],
    positive: Bool[Tensor, "n m"],
    negative: Bool[Tensor, "n m"],
    *,
    margin: float = 1.0,
) -> Float[Tensor, ""]:
    """Mean over positives of ReLU(margin - s_ip + max_{n in neg(i)} s_in).

    The default loss of CONPONO's code (margin 1), where the paper writes a softmax. A positive is
    never a negative; one without any negative adds 0 and no gradient.
    """
    lowest = torch.finfo(logits.dtype).min / 2  # less a logit it stays finite
    hardest = logits.masked_fill(~negative | positive, lowest).amax(dim=1)
    anchor, partner = positive.nonzero(as_tuple=True)
    losses = (margin - logits[anchor, partner] + hardest[anchor]).relu()
    return losses.sum() / max(1, len(losses))
