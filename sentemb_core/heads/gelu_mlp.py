"""SG-OPT's projection, shared by the sentence vector and all layers' means."""

from torch import nn


def gelu_mlp(dim: int, width: int = 4096) -> nn.Module:
    """[..., dim] to [..., width] (Kim et al. 2021: 768 to 4096 to 4096, GELU after both)."""
    return nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
