"""Losses that judge every pair by itself: sigma(logit) is the chance that it is right."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from sentemb_core.errors import NoNegativesError, RecipeError
from sentemb_core.losses.info_nce import similarities
from sentemb_core.types import Similarity


def binary_cross_entropy(
    right: Float[Tensor, " positives"],
    wrong: Float[Tensor, " negatives"],
    *,
    reduction: Literal["mean", "sum"] = "mean",
) -> Float[Tensor, ""]:
    """-log sigma(s) of logits that are right, -log(1 - sigma(s)) of those that are wrong.

    Contrastive Tension (Carlsson et al. 2021) takes the mean over both kinds together;
    sentence-transformers the sum. `F.logsigmoid` keeps the digits that softplus drops above 20.
    """
    losses = -torch.cat([F.logsigmoid(right), F.logsigmoid(-wrong)])
    return losses.mean() if reduction == "mean" else losses.sum()


def pair_bce(
    queries: Float[Tensor, "n dim"],
    candidates: Float[Tensor, "m dim"],
    positive: Bool[Tensor, "n m"],
    negative: Bool[Tensor, "n m"],
    *,
    temperature: float,
    similarity: Similarity,
) -> Float[Tensor, ""]:
    """Per anchor the sum over its pairs, and the mean over anchors (product_thesis, BCE loss).

    The paper prints sigma(s ** tau), which a negative cosine to a fractional power leaves
    undefined; this is sigma(s / tau) (erratum E24). A positive is never a negative.

    Raises:
        RecipeError: the temperature is not positive.
    """
    if temperature <= 0:
        raise RecipeError(
            f"The temperature divides the similarity and must be positive; found {temperature}. "
            "product_thesis takes 0.05."
        )
    logits = similarities(queries, candidates, similarity) / temperature
    right, wrong = logits[positive], logits[negative & ~positive]
    return binary_cross_entropy(right, wrong, reduction="sum") / max(1, len(queries))


def jensen_shannon(
    scores: Float[Tensor, "tokens sentences"],
    positive: Bool[Tensor, "tokens sentences"],
    negative: Bool[Tensor, "tokens sentences"],
) -> Float[Tensor, ""]:
    """The negated Jensen-Shannon estimate of mutual information (IS-BERT, Zhang et al. 2020).

    E_neg[softplus(-s) + s - log 2] - E_pos[log 2 - softplus(-s)], each expectation over its own
    pairs: 0 when nothing is told apart, -2 log 2 at best. Without negatives there is no estimate:
    0, and no gradient (see `info_nce.count_unopposed`).

    Args:
        scores: Inner products of token and sentence vectors.
        positive: The token stands in the sentence.
        negative: The sentence may be held against the token.

    Raises:
        NoNegativesError: there is one sentence alone.
    """
    if scores.shape[1] == 1:
        raise NoNegativesError(
            "The estimate compares tokens with other sentences, and a batch of 1 sentence has "
            "none: take a larger batch"
        )
    wrong = scores[negative]
    if len(wrong) == 0:
        return scores.sum() * 0.0
    return -F.logsigmoid(-wrong).mean() - F.logsigmoid(scores[positive]).mean() - 2 * math.log(2)
