"""A head on the vectors of several views."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


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
