"""Logistic losses: every pair is classified by itself, with sigma(logit) as its probability."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from sentemb_core.errors import NoNegativesError, RecipeError
from sentemb_core.methods.parts.info_nce import count_unopposed, on_device, similarities
from sentemb_core.methods.parts.method import CrossSampleTerm, Learner
from sentemb_core.methods.parts.views import Batch, negatives, positives
from sentemb_core.types import Similarity


def binary_cross_entropy(
    right: Float[Tensor, " positives"],
    wrong: Float[Tensor, " negatives"],
    *,
    reduction: Literal["mean", "sum"] = "mean",
) -> Float[Tensor, ""]:
    """Return -log sigma(s) of the positive logits and -log(1 - sigma(s)) of the negative logits.

    Contrastive Tension (Carlsson et al. 2021) takes the mean over both kinds, sentence-transformers
    the sum. `F.logsigmoid` keeps the digits that softplus loses above 20.
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
    """Return the mean over anchors of the sum over their pairs (product_thesis, BCE loss).

    The paper prints sigma(s ** tau), which is undefined for negative cosines and fractional powers.
    This is sigma(s / tau) (erratum E24). A positive is never a negative.

    Raises:
        RecipeError: the temperature is not positive.
    """
    if temperature <= 0:
        raise RecipeError(
            f"The temperature must be positive; found {temperature}. product_thesis uses 0.05"
        )
    logits = similarities(queries, candidates, similarity) / temperature
    right, wrong = logits[positive], logits[negative & ~positive]
    return binary_cross_entropy(right, wrong, reduction="sum") / max(1, len(queries))


def jensen_shannon(
    scores: Float[Tensor, "tokens sentences"],
    positive: Bool[Tensor, "tokens sentences"],
    negative: Bool[Tensor, "tokens sentences"],
) -> Float[Tensor, ""]:
    """Return the negated Jensen-Shannon estimate of mutual information (IS-BERT).

    E_neg[softplus(-s) + s - log 2] - E_pos[log 2 - softplus(-s)], each expectation over its own
    pairs: 0 for an uninformative encoder, -2 log 2 at best. Without negatives the estimate does not
    exist: the result is 0 without a gradient (see `info_nce.count_unopposed`).

    Args:
        scores: Inner products of token and sentence vectors.
        positive: Whether the token belongs to the sentence.
        negative: Whether the sentence is a negative of the token.

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


def binary(
    anchors: str, candidates: str, temperature: float, similarity: Similarity
) -> CrossSampleTerm:
    """Binary term: every pair of the two views is positive or negative (product_thesis).

    The masks are those of `contrast`.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        own = positives(left, right)
        positive = on_device(own, vectors[anchors])
        negative = on_device(negatives(left, right, own), vectors[anchors])
        loss = pair_bce(
            vectors[anchors],
            vectors[candidates],
            positive,
            negative,
            temperature=temperature,
            similarity=similarity,
        )
        return loss, {"unopposed_anchors": float(count_unopposed(positive, negative))}

    return term


def tension(anchors: str, others: str, *, rivals: int = 7) -> CrossSampleTerm:
    """Contrastive Tension: a row against itself and the next `rivals` rows, by inner products.

    The paper draws 7 negatives outside the batch. Here row i has rows i+1 ... i+7 of the twin's
    view (cyclic, so fewer in a smaller batch), without those of its document or text. The loss is
    the mean over all logits; sentence-transformers takes the sum.

    Args:
        anchors: View of the learner's vectors.
        others: The same sentences, row by row, encoded by the independent twin.
        rivals: Maximum number of negatives per row.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[others]
        own = np.eye(len(left), dtype=bool)
        shifted = np.zeros_like(own)
        for shift in range(1, 1 + rivals):
            shifted |= np.roll(own, shift, axis=1)
        logits = vectors[anchors] @ vectors[others].T
        positive = on_device(own, logits)
        negative = on_device(shifted & negatives(left, right, own), logits)
        loss = binary_cross_entropy(logits[positive], logits[negative])
        return loss, {"unopposed_anchors": float(count_unopposed(positive, negative))}

    return term


def mutual_information(tokens: str) -> CrossSampleTerm:
    """IS-BERT: a token belongs to its own sentence, the mean of its tokens, and to no other.

    Args:
        tokens: A view with vectors [rows, time, dim]; the first `len(tokens)` of a row are real.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
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
