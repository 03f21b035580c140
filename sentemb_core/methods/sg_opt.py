"""SG-OPT (Kim et al. 2021): the sentence vector agrees with the layers of a frozen copy."""

import logging
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from sentemb_core.config.methods import SGOPT
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.heads import draw_weights
from sentemb_core.methods.parts.info_nce import loss_of_choice
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import require_embedding_layer
from sentemb_core.methods.parts.views import Batch, first, negatives, positives

log = logging.getLogger(__name__)

EMBEDDINGS = ("backbone.embeddings.",)
"""Name prefix of the parameters that are frozen and shared with the copy."""


def sg_opt(settings: SGOPT, encoder: Encoder) -> Method:
    """Every layer's mean state is a positive; all layers of other sentences are negatives.

    An encoder with mean pooling starts as one of its own positives and gets a warning.

    Raises:
        RecipeError: Dense layers of the encoder move its vector out of the space of its states.
    """
    require_embedding_layer(encoder, "sg_opt")
    if encoder.layers is not None:
        raise RecipeError(
            "sg_opt compares the sentence vector with layer states; this encoder's Dense layers "
            f"map {encoder.hidden_dim} to {encoder.dim} dimensions. Start from an encoder without "
            "them, or use simcse"
        )
    if encoder.pooling == "mean":
        log.warning(
            "sg_opt with mean pooling starts at one of its own positives, so little is left to "
            "learn; its paper uses encoder.pooling=cls_before_pooler"
        )
    return Method(
        name="sg_opt",
        pairs=identity,
        views={"anchor": first, "layers": first},
        forward_passes={"layers": all_layers},
        terms={
            "contrast": (1.0, layer_contrast("anchor", "layers", settings.temperature)),
            "distance": (settings.l2, distance_to_start),
        },
        head=lambda dim: gelu_mlp(dim, settings.width),
        networks=lambda encoder: {"start": FrozenCopy(encoder, shared=EMBEDDINGS)},
        frozen=EMBEDDINGS,
    )


def layer_contrast(anchors: str, layers: str, temperature: float) -> CrossSampleTerm:
    """Layer term: each anchor chooses each of its own layers against all layers of the others.

    The other layers of its own sentence are neither positives nor negatives. The loss is the mean
    over anchors and layers. Vectors are [rows, dim] for `anchors` and [rows, layers, dim] for
    `layers`.
    """

    def term(vectors: Vectors, batch: Batch, _: Learner) -> LossAndMetrics:
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


def distance_to_start(_: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
    """Regularisation term: |theta - theta_0|^2 over the trainable parameters of the encoder.

    theta_0 is `learner.networks["start"]`, a copy of the encoder before training.
    """
    now, start = learner.encoder.parameters(), learner.networks["start"].parameters()
    squares = [
        (weight - before.detach()).square().sum()
        for weight, before in zip(now, start, strict=True)
        if weight.requires_grad
    ]
    return torch.stack(squares).sum(), {}


def all_layers(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """A forward pass to the mean states of every layer of `start`: [rows, layers, dim].

    The embedding layer is the first.
    """
    with torch.no_grad():
        start = cast(Encoder, learner.networks["start"])
        read = start.read(ids, mask, layers=True)
        pooled = torch.stack([mean_pool(states, mask) for states in read.layers], dim=1)
    return Reading(pooled, read.layers if layers else ())


def gelu_mlp(dim: int, width: int = 4096) -> nn.Module:
    """Return a head [..., dim] to [..., width] (Kim et al. 2021: 768 to 4096 to 4096, two GELU).

    Initial weights as in the official code: std .02, biases 0.
    """
    head = nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
    draw_weights(head)
    return head
