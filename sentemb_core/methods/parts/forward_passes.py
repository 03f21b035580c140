"""Forward passes through copies of the encoder and through networks on top of it."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.methods.parts.method import ForwardPass, Learner, read_by


def by_network(name: str) -> ForwardPass:
    """Pass through the network `name` without gradient and dropout (ESimCSE's momentum encoder)."""

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with torch.no_grad():
            return read_by(_copy(learner, name), ids, mask, layers)

    return forward


def by_twin(name: str) -> ForwardPass:
    """Pass through the trainable network `name`, with the encoder's dropout mode (CT)."""

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        twin = cast(Encoder, learner.networks[name])
        return read_by(twin.train(learner.encoder.training), ids, mask, layers)

    return forward


def all_layers(name: str) -> ForwardPass:
    """Return mean-pooled states of every layer of a frozen encoder: [rows, layers, dim].

    The embedding layer is the first (SG-OPT, Kim et al. 2021).
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with torch.no_grad():
            read = _copy(learner, name).read(ids, mask, layers=True)
            pooled = torch.stack([mean_pool(states, mask) for states in read.layers], dim=1)
        return Reading(pooled, read.layers if layers else ())

    return forward


def token_features(name: str) -> ForwardPass:
    """Return the features of network `name` on the last layer: [rows, max_length, features].

    Rows have equal length, so passes of different lengths fit together. Positions after the end of
    a text are 0. For the convolutions of IS-BERT (Zhang et al. 2020).
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        read = learner.encoder.read(ids, mask, layers=True)
        real = torch.ones_like(ids) if mask is None else mask
        features = learner.networks[name](read.layers[-1], real)
        behind = learner.encoder.max_length - ids.shape[1]
        return Reading(F.pad(features, (0, 0, 0, behind)), read.layers if layers else ())

    return forward


def _copy(learner: Learner, name: str) -> Encoder:
    return cast(Encoder, learner.networks[name])
