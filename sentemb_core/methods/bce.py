"""SimCSE's pairs with a binary loss (product_thesis)."""

from jaxtyping import Bool, Float
from torch import Tensor

from sentemb_core.config.methods import BCE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.info_nce import (
    binary_cross_entropy,
    count_unopposed,
    on_device,
    similarities,
)
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.views import Batch, first, negatives, positives
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.types import Similarity


def bce(settings: BCE, encoder: Encoder) -> Method:
    """Classify each pair by sigma(similarity / temperature): the own sentence or another."""
    require_dropout(encoder, "bce")
    return Method(
        name="bce",
        pairs=identity,
        views={"anchor": first, "positive": first},
        terms={"binary": (1.0, binary("anchor", "positive", settings.temperature))},
    )


def binary(anchors: str, candidates: str, temperature: float) -> CrossSampleTerm:
    """Binary term: every pair of the two views is positive or negative, as for `contrast`."""

    def term(vectors: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
        queries, choices = vectors[anchors], vectors[candidates]
        left, right = batch.views[anchors], batch.views[candidates]
        own = positives(left, right)
        positive = on_device(own, queries)
        negative = on_device(negatives(left, right, own), queries)
        similarity = learner.encoder.similarity
        loss = pair_bce(
            queries, choices, positive, negative, temperature=temperature, similarity=similarity
        )
        return loss, {"unopposed_anchors": float(count_unopposed(positive, negative))}

    return term


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
    """
    logits = similarities(queries, candidates, similarity) / temperature
    right, wrong = logits[positive], logits[negative & ~positive]
    return binary_cross_entropy(right, wrong, reduction="sum") / max(1, len(queries))
