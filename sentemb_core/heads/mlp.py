"""SimCSE's head: a new dense layer and tanh, used in training alone."""

from torch import nn

from sentemb_core.heads.weights import draw_weights


def mlp(dim: int) -> nn.Module:
    """[batch, dim] to [batch, dim] (SimCSE, `mlp_only_train`; weights as BERT's, std .02)."""
    head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
    draw_weights(head)
    return head
