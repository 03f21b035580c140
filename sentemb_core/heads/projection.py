"""ORQA's projection of query and block, which inverse cloze is trained through."""

from torch import nn

from sentemb_core.heads.weights import draw_weights


def projection(dim: int, width: int = 128) -> nn.Module:
    """[batch, dim] to [batch, width] (ORQA's code: dense, layer norm, dropout .1).

    Args:
        dim: Of the encoder's vectors.
        width: ORQA's 128.
    """
    head = nn.Sequential(nn.Linear(dim, width), nn.LayerNorm(width), nn.Dropout(0.1))
    draw_weights(head)
    return head
