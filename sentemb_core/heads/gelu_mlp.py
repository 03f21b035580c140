"""SG-OPT's projection, shared by the sentence vector and all layers' means."""

from torch import nn

from sentemb_core.heads.weights import draw_weights


def gelu_mlp(dim: int, width: int = 4096) -> nn.Module:
    """[..., dim] to [..., width] (Kim et al. 2021: 768 to 4096 to 4096, GELU after both).

    Weights begin as in the official code: std .02, biases 0.
    """
    head = nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
    draw_weights(head)
    return head
