"""Small training heads, and the initial weights of new parameters."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn


def draw_weights(module: nn.Module) -> None:
    """Initialise all weights of `module` as BERT does: std .02, biases 0, layer norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and cast(Tensor | None, part.bias) is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            nn.init.zeros_(part.weight[part.padding_idx])
        if isinstance(part, nn.LayerNorm):
            part.reset_parameters()


def mlp(dim: int) -> nn.Module:
    """Return SimCSE's head, [batch, dim] to [batch, dim] (`mlp_only_train`; std .02 as BERT)."""
    head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
    draw_weights(head)
    return head


def batch_norm_mlp(dim: int) -> nn.Module:
    """Return a head whose columns have mean 0 and variance 1 in training: [batch, dim] to itself.

    The code of InfoCSE-aux and DiffCSE uses it in place of SimCSE's head. It needs the whole batch
    of at least two rows, so under a gradient cache it runs on the loss side.
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


def bilinear(dim: int) -> nn.Module:
    """Return a linear map [..., dim] to [..., dim], initialised as the plain inner product."""
    matrix = nn.Linear(dim, dim, bias=False)
    nn.init.eye_(matrix.weight)
    return matrix


def on_views(head: nn.Module, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Apply `head` to the rows of every view; views of one shape form one batch.

    DiffCSE's code does the same: batch norm takes its statistics over 2N rows and treats both views
    alike.
    """
    alike: dict[torch.Size, list[str]] = {}
    for name, rows in vectors.items():
        alike.setdefault(rows.shape[1:], []).append(name)
    done: dict[str, Tensor] = {}
    for names in alike.values():
        rows = head(torch.cat([vectors[name] for name in names]))
        done |= zip(names, rows.split([len(vectors[name]) for name in names]), strict=True)
    return {name: done[name] for name in vectors}
