"""Terms that judge every pair by itself: product_thesis's BCE, Contrastive Tension, IS-BERT."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from sentemb_core.losses.info_nce import count_unopposed
from sentemb_core.losses.logistic import binary_cross_entropy, jensen_shannon, pair_bce
from sentemb_core.methods.contrast import on_device
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.types import Similarity
from sentemb_core.views.batch import Batch, negatives, positives


def binary(
    anchors: str, candidates: str, temperature: float, similarity: Similarity
) -> CrossSampleTerm:
    """Every pair of the two views is right or wrong (product_thesis); masks as in `contrast`."""

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

    The paper draws 7 negatives outside the batch; here row i has rows i+1 ... i+7 of the twin's
    view (cyclic, so fewer in a smaller batch), less those of its document or text. The mean over
    all logits (sentence-transformers takes their sum).

    Args:
        anchors: The view that the learner reads.
        others: The same sentences, row by row, as its independent twin reads them.
        rivals: Most negatives a row has.
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
    """IS-BERT: a token belongs to its own sentence, the mean of its tokens, and to no other's.

    Args:
        tokens: A view with vectors [rows, time, dim], of which the first `len(tokens)` of a row
            are real.
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
