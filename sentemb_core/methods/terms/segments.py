"""HiCL's local term (seed 004): segments of a sequence look for themselves in another view."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.methods.contrast import loss_of_choice
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.types import Similarity
from sentemb_core.views.batch import Batch, View, negatives
from sentemb_core.views.content import ranks

Siblings = Literal["ignored", "negative", "positive"]


def segment_contrast(
    anchors: str,
    candidates: str,
    temperature: float,
    similarity: Similarity,
    *,
    siblings: Siblings = "ignored",
    averaged: bool = False,
) -> CrossSampleTerm:
    """The k-th segment of a sequence chooses the k-th segment of the same sequence.

    The mean over segments (seed 004, Eq. 1 and 2, with negatives of the second view).

    Args:
        anchors: A view whose rows name their owners.
        candidates: The same sequences, sliced too.
        temperature: Divides the similarity.
        similarity: The encoder's.
        siblings: What other segments of the own sequence are (an ablation of the paper).
        averaged: Whether a rival sequence of v segments counts once, 1 / v each, in place of v
            times (the paper's 'averaging' denominator).
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        sequence = _owner(left)[:, None] == _owner(right)
        own = sequence & (_ordinal(left)[:, None] == _ordinal(right))
        positive = sequence if siblings == "positive" else own
        negative = negatives(left, right, positive)
        if siblings == "negative":
            negative |= sequence & ~own
        shares = np.bincount(_owner(right))[_owner(right)]
        return loss_of_choice(
            vectors[anchors],
            vectors[candidates],
            positive,
            negative,
            temperature,
            similarity,
            bias=np.where(positive, 0.0, -np.log(shares)) if averaged else None,
            reduction="anchors",  # siblings as positives are more positives, not more to say
        )

    return term


def _owner(view: View) -> Int64[np.ndarray, " rows"]:
    return np.arange(len(view)) if view.owner is None else view.owner


def _ordinal(view: View) -> Int64[np.ndarray, " rows"]:
    """How many rows of the same owner stand before each row."""
    return ranks(_owner(view), np.arange(len(view)))
