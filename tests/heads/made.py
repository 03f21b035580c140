"""Rows of sentences with masks in them, and learners of a tiny encoder."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.packing import padded
from sentemb_core.methods.parts.method import Learner, Rows
from sentemb_core.methods.parts.views import IGNORED
from tests import tiny

MASK = 5
SENTENCES = [[2, 7, 8, 9, 10, 3], [2, 11, 12, 3], [2, 13, 14, 15, 3]]
MASKED = [[2, MASK, 8, 9, MASK, 3], [2, 11, MASK, 3], [2, 13, 14, 15, 3]]


def encoder(*, seed: int = 0, pooling: str = "cls_before_pooler", dropout: float = 0.0) -> Encoder:
    made = tiny.bert(dropout=dropout, seed=seed)
    made.pooling = pooling
    return made


def learner(found: Encoder, **networks: nn.Module) -> Learner:
    return Learner(found, networks=nn.ModuleDict(networks))


def targets_of(masked: Sequence[int], sentence: Sequence[int]) -> list[int]:
    return [
        right if hidden == MASK else IGNORED for hidden, right in zip(masked, sentence, strict=True)
    ]


def rows(
    found: Encoder,
    ids: Sequence[Sequence[int]] = SENTENCES,
    inputs: Sequence[Sequence[int]] = MASKED,
    targets: Sequence[Sequence[int]] | None = None,
    *,
    more_padding: int = 0,
) -> Rows:
    """As the training loop makes them; targets are the masked tokens unless given."""
    if targets is None:
        targets = [targets_of(*pair) for pair in zip(inputs, ids, strict=True)]

    def tensor(lists, filler):
        wide = [list(row) for row in lists]
        if more_padding:
            longest = max(map(len, wide)) + more_padding
            wide = [row + [filler] * (longest - len(row)) for row in wide]
        return padded([np.array(row, dtype=np.int64) for row in wide], filler)[0]

    tokens, seen = tensor(ids, 0), tensor(inputs, 0)
    lengths = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
    return Rows(tokens, mask, seen, tensor(targets, IGNORED), found.read(tokens, mask, layers=True))


def gradients(module: nn.Module) -> dict[str, float | None]:
    """Largest absolute gradient of every parameter."""
    return {
        name: None if weight.grad is None else weight.grad.abs().max().item()
        for name, weight in module.named_parameters()
    }


def learns(module: nn.Module) -> bool:
    return any(gradients(module).values())
