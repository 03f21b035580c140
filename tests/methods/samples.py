"""Rows of tokens for readers, heads and losses, and learners of a tiny encoder."""

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
    pooled = tiny.bert(dropout=dropout, seed=seed)
    pooled.pooling = pooling
    return pooled


def learner(encoder: Encoder | None = None, **networks: nn.Module) -> Learner:
    """Of an encoder, by default one without dropout."""
    return Learner(encoder or tiny.bert(dropout=0.0), networks=nn.ModuleDict(networks))


def targets_of(masked: Sequence[int], sentence: Sequence[int]) -> list[int]:
    return [
        right if hidden == MASK else IGNORED for hidden, right in zip(masked, sentence, strict=True)
    ]


def masked_rows(
    encoder: Encoder,
    ids: Sequence[Sequence[int]] = SENTENCES,
    inputs: Sequence[Sequence[int]] = MASKED,
    targets: Sequence[Sequence[int]] | None = None,
    *,
    more_padding: int = 0,
) -> Rows:
    """Rows as the training loop makes them; targets are the masked tokens by default."""
    if targets is None:
        targets = [targets_of(*pair) for pair in zip(inputs, ids, strict=True)]

    def tensor(lists, filler):
        wide = [list(row) for row in lists]
        if more_padding:
            longest = max(map(len, wide)) + more_padding
            wide = [row + [filler] * (longest - len(row)) for row in wide]
        return padded([np.array(row, dtype=np.int64) for row in wide], filler)[0]

    tokens, hidden = tensor(ids, 0), tensor(inputs, 0)
    lengths = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
    return Rows(
        tokens, mask, hidden, tensor(targets, IGNORED), encoder.read(tokens, mask, layers=True)
    )


def gradients(module: nn.Module) -> dict[str, float | None]:
    """Largest absolute gradient of every parameter."""
    return {
        name: None if weight.grad is None else weight.grad.abs().max().item()
        for name, weight in module.named_parameters()
    }


def learns(module: nn.Module) -> bool:
    return any(gradients(module).values())


def random_rows(*lengths, seed=0):
    """Random ids of these lengths, and their mask: None if all lengths are equal."""
    generator = torch.Generator().manual_seed(seed)
    time = max(lengths)
    ids = torch.randint(4, tiny.VOCABULARY, (len(lengths), time), generator=generator)
    mask = (torch.arange(time) < torch.tensor(lengths)[:, None]).long()
    return ids * mask, None if len(set(lengths)) == 1 else mask


def read(forward_pass, learner, ids, mask, *, layers=False, seed=0):
    """The reading of a forward pass that the loop has seeded."""
    torch.manual_seed(seed)
    return forward_pass(learner, ids, mask, layers)
