"""SimCSE's head: a new dense layer and tanh, used in training alone."""

from torch import nn


def mlp(dim: int) -> nn.Module:
    """[batch, dim] to [batch, dim] (SimCSE, `mlp_only_train`; weights as BERT's, std .02)."""
    dense = nn.Linear(dim, dim)
    nn.init.normal_(dense.weight, std=0.02)
    nn.init.zeros_(dense.bias)
    return nn.Sequential(dense, nn.Tanh())
