"""The head of DiffCSE and InfoCSE-aux: two dense layers with batch norm."""

from torch import nn

from sentemb_core.heads.weights import draw_weights


def batch_norm_mlp(dim: int) -> nn.Module:
    """[batch, dim] to [batch, dim], in training of mean 0 and variance 1 per column.

    InfoCSE-aux's code and DiffCSE's have it in place of SimCSE's head. It needs two rows at least,
    and the whole batch at once: under a gradient cache its place is on the loss side.
    """
    head = nn.Sequential(
        nn.Linear(dim, 2 * dim, bias=False),
        nn.BatchNorm1d(2 * dim),
        nn.ReLU(),
        nn.Linear(2 * dim, dim, bias=False),
        nn.BatchNorm1d(dim, affine=False),
    )
    draw_weights(head)
    return head
