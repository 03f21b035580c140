"""Contrastive Tension (Carlsson et al. 2021): two encoders agree on the same sentence only."""

from typing import cast

import numpy as np
from torch import Tensor

from sentemb_core.config.methods import CT
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.methods.parts.copies import twin
from sentemb_core.methods.parts.info_nce import binary_cross_entropy, count_unopposed, on_device
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
    read_by,
)
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.views import Batch, first, negatives


def ct(settings: CT, encoder: Encoder) -> Method:
    """A logistic loss over inner products of the vectors of encoder and twin, without dropout."""
    return Method(
        name="ct",
        pairs=identity,
        views={"anchor": first, "other": first},
        forward_passes={"other": by_twin},
        terms={"tension": (1.0, tension("anchor", "other", rivals=settings.negatives))},
        networks=lambda encoder: {"twin": twin(encoder)},
        dropout=False,
    )


def by_twin(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """A forward pass through the trainable network `twin`, with the encoder's dropout mode."""
    other = cast(Encoder, learner.networks["twin"])
    return read_by(other.train(learner.encoder.training), ids, mask, layers)


def tension(anchors: str, others: str, *, rivals: int = 7) -> CrossSampleTerm:
    """Contrastive Tension: a row against itself and the next `rivals` rows, by inner products.

    The paper draws 7 negatives outside the batch. Here row i has rows i+1 ... i+7 of the twin's
    view (cyclic, so fewer in a smaller batch), without those of its document or text. The loss is
    the mean over all logits; sentence-transformers takes the sum.
    """

    def term(vectors: Vectors, batch: Batch, _: Learner) -> LossAndMetrics:
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
