"""What readers are given in tests."""

import torch
from torch import nn

from sentemb_core.methods.parts.method import Learner
from tests import tiny


def learner(encoder=None, **networks):
    return Learner(encoder or tiny.bert(dropout=0.0), nn.Identity(), nn.ModuleDict(networks))


def rows(*lengths, seed=0):
    """Random ids of these lengths and their mask; none where all are equal."""
    generator = torch.Generator().manual_seed(seed)
    time = max(lengths)
    ids = torch.randint(4, tiny.VOCABULARY, (len(lengths), time), generator=generator)
    mask = (torch.arange(time) < torch.tensor(lengths)[:, None]).long()
    return ids * mask, None if len(set(lengths)) == 1 else mask


def read(reader, learner, ids, mask, *, layers=False, seed=0):
    """What a reader reads when the loop has seeded it."""
    torch.manual_seed(seed)
    return reader(learner, ids, mask, layers)
