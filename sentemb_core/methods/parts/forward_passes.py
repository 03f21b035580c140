"""Readers that are not the encoder: copies of it, and networks on top of it."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.methods.parts.method import Learner, Reader, read_by


def by_network(name: str) -> Reader:
    """The encoder `name` among the networks, without gradient and dropout (ESimCSE's momentum)."""

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with torch.no_grad():
            return read_by(_copy(learner, name), ids, mask, layers)

    return reader


def by_twin(name: str) -> Reader:
    """The encoder `name` among the networks, which learns, too; dropout as the first one (CT)."""

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        twin = cast(Encoder, learner.networks[name])
        return read_by(twin.train(learner.encoder.training), ids, mask, layers)

    return reader


def all_layers(name: str) -> Reader:
    """Mean-pooled states of every layer of a frozen encoder: pooled is [rows, layers, dim].

    The embedding layer is the first (SG-OPT, Kim et al. 2021).
    """

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with torch.no_grad():
            read = _copy(learner, name).read(ids, mask, layers=True)
            pooled = torch.stack([mean_pool(states, mask) for states in read.layers], dim=1)
        return Reading(pooled, read.layers if layers else ())

    return reader


def token_features(name: str) -> Reader:
    """What the network `name` makes of the last layer: pooled is [rows, max_length, features].

    Rows have one length, so that passes of different lengths go together: places behind a text
    are 0. For the convolutions of IS-BERT (Zhang et al. 2020).
    """

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        read = learner.encoder.read(ids, mask, layers=True)
        real = torch.ones_like(ids) if mask is None else mask
        features = learner.networks[name](read.layers[-1], real)
        behind = learner.encoder.max_length - ids.shape[1]
        return Reading(F.pad(features, (0, 0, 0, behind)), read.layers if layers else ())

    return reader


def _copy(learner: Learner, name: str) -> Encoder:
    return cast(Encoder, learner.networks[name])
