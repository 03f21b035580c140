"""IS-BERT (Zhang et al. 2020): a sentence shares information with its own tokens."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sentemb_core.config.methods import ISBERT
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import NoNegativesError
from sentemb_core.methods.parts.info_nce import count_unopposed, on_device
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.views import Batch, first, negatives


def is_bert(_: ISBERT, encoder: Encoder) -> Method:
    """Jensen-Shannon estimate over token features of small convolutions; a sentence is their mean.

    The convolutions are dropped at the end: the saved encoder is the backbone with its own pooling.
    """
    return Method(
        name="is_bert",
        pairs=identity,
        views={"tokens": first},
        forward_passes={"tokens": token_features},
        terms={"information": (1.0, mutual_information("tokens"))},
        networks=lambda encoder: {"cnn": TokenCNN(encoder.hidden_dim)},
    )


KERNELS = (1, 3, 5)
"""Kernel widths of the convolutions in tokens (Zhang et al. 2020)."""


class TokenCNN(nn.Module):
    """Convolutions over token states with equal width, one third of the channels per kernel.

    256 channels per kernel at width 768, without an activation, as in the code. States of
    padding are zero before and after.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        count = len(KERNELS)
        widths = [dim // count + (index < dim % count) for index in range(count)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(dim, width, kernel, padding=kernel // 2)
            for width, kernel in zip(widths, KERNELS, strict=True)
        )

    def forward(
        self, states: Float[Tensor, "rows time dim"], mask: Int[Tensor, "rows time"]
    ) -> Float[Tensor, "rows time dim"]:
        real = mask.unsqueeze(-1)
        columns = (states * real).transpose(1, 2)
        seen = torch.cat([convolution(columns) for convolution in self.convolutions], dim=1)
        return seen.transpose(1, 2) * real


def token_features(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """A forward pass to the features of the network `cnn`: [rows, max_length, features].

    Rows have equal length, so passes of different lengths fit together. Positions after the end of
    a text are 0.
    """
    read = learner.encoder.read(ids, mask, layers=True)
    real = torch.ones_like(ids) if mask is None else mask
    features = learner.networks["cnn"](read.layers[-1], real)
    behind = learner.encoder.max_length - ids.shape[1]
    return Reading(F.pad(features, (0, 0, 0, behind)), read.layers if layers else ())


def mutual_information(tokens: str) -> CrossSampleTerm:
    """IS-BERT: a token belongs to its own sentence, the mean of its tokens, and to no other.

    The view has vectors [rows, time, dim]; the first `len(tokens)` of a row are real.
    """

    def term(vectors: Vectors, batch: Batch, _: Learner) -> LossAndMetrics:
        view, features = batch.views[tokens], vectors[tokens]
        lengths = np.array([len(row) for row in view.tokens])
        real = on_device(np.arange(features.shape[1]) < lengths[:, None], features)
        summed = features.masked_fill(~real[:, :, None], 0).sum(1)
        sentences = summed / on_device(lengths, features)[:, None]
        scores = features[real] @ sentences.T
        own = np.eye(len(view), dtype=bool)
        positive, negative = on_device(own, scores), on_device(negatives(view, view, own), scores)
        row = on_device(np.repeat(np.arange(len(view)), lengths), scores)
        loss = jensen_shannon(scores, positive[row], negative[row])
        return loss, {"unopposed_anchors": float(count_unopposed(positive, negative))}

    return term


def jensen_shannon(
    scores: Float[Tensor, "tokens sentences"],
    positive: Bool[Tensor, "tokens sentences"],
    negative: Bool[Tensor, "tokens sentences"],
) -> Float[Tensor, ""]:
    """Return the negated Jensen-Shannon estimate of mutual information.

    E_neg[softplus(-s) + s - log 2] - E_pos[log 2 - softplus(-s)], each expectation over its own
    pairs: 0 for an uninformative encoder, -2 log 2 at best. Without negatives the estimate does not
    exist: the result is 0 without a gradient (see `info_nce.count_unopposed`).

    Raises:
        NoNegativesError: the batch has only one sentence.
    """
    if scores.shape[1] == 1:
        raise NoNegativesError(
            "IS-BERT's estimate needs other sentences as negatives; found a batch of 1 sentence. "
            "Use a larger batch"
        )
    wrong = scores[negative]
    if len(wrong) == 0:
        return scores.sum() * 0.0
    return -F.logsigmoid(-wrong).mean() - F.logsigmoid(scores[positive]).mean() - 2 * math.log(2)
