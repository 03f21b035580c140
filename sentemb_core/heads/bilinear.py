"""A matrix between a query and its candidate: W in q^T W c (CPC, CONPONO)."""

from torch import nn


def bilinear(dim: int) -> nn.Module:
    """[..., dim] to [..., dim], linear; it begins as a plain inner product, whose space is shared.

    Args:
        dim: Width of both sides.
    """
    matrix = nn.Linear(dim, dim, bias=False)
    nn.init.eye_(matrix.weight)
    return matrix
