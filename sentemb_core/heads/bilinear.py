"""A matrix between a query and its candidate: W in q^T W c (CPC, CONPONO)."""

from typing import Literal

from torch import nn


def bilinear(dim: int, init: Literal["identity", "normal"] = "identity") -> nn.Module:
    """[..., dim] to [..., dim], linear.

    Args:
        dim: Width of both sides.
        init: `identity` begins as a plain inner product, whose space is shared; `normal` is
            CONPONO's code, std .02.
    """
    matrix = nn.Linear(dim, dim, bias=False)
    if init == "identity":
        nn.init.eye_(matrix.weight)
    else:
        nn.init.normal_(matrix.weight, std=0.02)
    return matrix
