"""HiCL's local term (hicl): segments of a sequence look for themselves in another view."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int64
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
    rivals: str | None = None,
    siblings: Siblings = "ignored",
    averaged: bool = False,
) -> CrossSampleTerm:
    """The k-th segment of a sequence chooses the k-th segment of the same sequence.

    The mean over segments (hicl, Eq. 1 and 2; of which view the negatives are it does not say:
    erratum E34).

    Args:
        anchors: A view whose rows name their owners.
        candidates: The same sequences, sliced too.
        temperature: Divides the similarity.
        similarity: The encoder's.
        rivals: The view of the negatives; none: the candidates' own.
        siblings: What other segments of the own sequence are (an ablation of the paper).
        averaged: Whether a rival sequence of v segments counts once, 1 / v each, in place of v
            times (the paper's 'averaging' denominator).
    """
    opposed = rivals or candidates

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        sequence, own = _same(left, right)
        positive = sequence if siblings == "positive" else own
        other = batch.views[opposed]
        sequence, own = _same(left, other)
        if siblings == "negative":
            negative = negatives(left, other, own) | (sequence & ~own & ~_copies(left, other))
        else:  # neither is what another text repeats of them
            negative = negatives(left, other, sequence)
        choices, shares = vectors[candidates], np.bincount(_owner(other))[_owner(other)]
        if opposed != candidates:  # the right ones, and the wrong ones behind them
            choices = torch.cat([choices, vectors[opposed]])
            positive = np.pad(positive, [(0, 0), (0, len(other))])
            negative = np.pad(negative, [(0, 0), (len(right), 0)])
            shares = np.pad(shares, (len(right), 0), constant_values=1)
        return loss_of_choice(
            vectors[anchors],
            choices,
            positive,
            negative,
            temperature,
            similarity,
            bias=np.where(positive, 0.0, -np.log(shares)) if averaged else None,
            reduction="anchors",  # siblings as positives are more positives, not more to say
        )

    return term


def _same(left: View, right: View) -> tuple[Bool[np.ndarray, "n m"], Bool[np.ndarray, "n m"]]:
    """Who are of one sequence, and who are the same segment of it."""
    sequence = _owner(left)[:, None] == _owner(right)
    return sequence, sequence & (_ordinal(left)[:, None] == _ordinal(right))


def _copies(left: View, right: View) -> Bool[np.ndarray, "n m"]:
    """Who say the same, as far as the views tell."""
    if left.wording is None or right.wording is None:
        return np.zeros((len(left), len(right)), dtype=bool)
    return left.wording[:, None] == right.wording


def _owner(view: View) -> Int64[np.ndarray, " rows"]:
    return np.arange(len(view)) if view.owner is None else view.owner


def _ordinal(view: View) -> Int64[np.ndarray, " rows"]:
    """How many rows of the same owner stand before each row."""
    return ranks(_owner(view), np.arange(len(view)))
