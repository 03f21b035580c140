"""SG-OPT's terms (Kim et al. 2021): stay near the start, whose layers are the positives."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from sentemb_core.methods.contrast import loss_of_choice
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.views.batch import Batch, negatives, positives


def layer_contrast(anchors: str, layers: str, temperature: float) -> CrossSampleTerm:
    """Each anchor chooses each of its own layers against all layers of the others.

    The other layers of its own sentence are neither right nor wrong. The mean over anchors and
    layers.

    Args:
        anchors: A view with vectors [rows, dim].
        layers: A view with vectors [rows, layers, dim].
        temperature: Divides the cosine; .01 in the paper.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[layers]
        positive = positives(left, right)
        negative = negatives(left, right, positive)
        count = vectors[layers].shape[1]
        return loss_of_choice(
            vectors[anchors].repeat_interleave(count, dim=0),
            vectors[layers].flatten(0, 1),
            np.kron(positive, np.eye(count, dtype=bool)),
            np.kron(negative, np.ones((count, count), dtype=bool)),
            temperature,
            "cosine",
        )

    return term


def distance_to_start() -> CrossSampleTerm:
    """|theta - theta_0|^2 over the encoder's learning parameters.

    theta_0 is `learner.networks["start"]`, a copy of the encoder before training. Frozen
    parameters never leave it, and add nothing.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        now, start = learner.encoder.parameters(), learner.networks["start"].parameters()
        squares = [
            (weight - before.detach()).square().sum()
            for weight, before in zip(now, start, strict=True)
            if weight.requires_grad
        ]
        return torch.stack(squares).sum(), {}

    return term
