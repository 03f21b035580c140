"""How new parameters begin."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn


def draw_weights(module: nn.Module) -> None:
    """All weights of `module` anew, as BERT draws them: std .02, biases 0, layer norms 1 and 0."""
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
    """[batch, dim] to [batch, dim] (SimCSE, `mlp_only_train`; weights as BERT's, std .02)."""
    head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
    draw_weights(head)
    return head


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


def bilinear(dim: int) -> nn.Module:
    """[..., dim] to [..., dim], linear; it begins as a plain inner product, whose space is shared.

    Args:
        dim: Width of both sides.
    """
    matrix = nn.Linear(dim, dim, bias=False)
    nn.init.eye_(matrix.weight)
    return matrix


def on_views(head: nn.Module, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every view's rows after `head`; views of one shape go through it as one batch.

    So do both in DiffCSE's code: batch norm takes its mean over 2N rows, and moves and scales the
    two views alike.
    """
    alike: dict[torch.Size, list[str]] = {}
    for name, rows in vectors.items():
        alike.setdefault(rows.shape[1:], []).append(name)
    done: dict[str, Tensor] = {}
    for names in alike.values():
        rows = head(torch.cat([vectors[name] for name in names]))
        done |= zip(names, rows.split([len(vectors[name]) for name in names]), strict=True)
    return {name: done[name] for name in vectors}
