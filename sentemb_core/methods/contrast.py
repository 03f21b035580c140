"""The terms that most methods share: one view's rows choose among another's by InfoNCE."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sentemb_core.losses.info_nce import Reduction, count_unopposed, info_nce
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.types import Similarity
from sentemb_core.views.batch import Batch, View, negatives, positives


def contrast(
    anchors: str,
    candidates: str,
    temperature: float,
    similarity: Similarity,
    *,
    bilinear: bool = False,
    queue: bool = False,
) -> CrossSampleTerm:
    """Rows of view `anchors` choose among rows of view `candidates` (one direction).

    Positives share the group; the document and duplicate texts are blocked as negatives. Between
    segments and the sequences they add up to, this is HiCLv2's entailment term.

    Args:
        anchors: Name of a view.
        candidates: Name of a view; with the anchors' own, no row chooses itself.
        temperature: Divides the similarity.
        similarity: The encoder's.
        bilinear: Whether `learner.networks["bilinear"]` maps the anchors first (CPC's W_k).
        queue: Whether `learner.networks["queue"].keys` [k, dim] are more negatives (ESimCSE). What
            texts they were is not known: a duplicate of the anchor among them is not blocked.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        positive = positives(left, right)
        negative = negatives(left, right, positive)
        queries, choices = vectors[anchors], vectors[candidates]
        if bilinear:
            queries = learner.networks["bilinear"](queries)
        if queue:
            keys = cast(Tensor, learner.networks["queue"].keys)
            choices = torch.cat([choices, keys.to(choices)])
            more = ((0, 0), (0, len(keys)))
            positive = np.pad(positive, more)
            negative = np.pad(negative, more, constant_values=True)
        return loss_of_choice(queries, choices, positive, negative, temperature, similarity)

    return term


def all_pairs(
    one: str,
    other: str,
    temperature: float,
    similarity: Similarity,
    *,
    within_document: bool = False,
) -> CrossSampleTerm:
    """NT-Xent: every row of both views chooses among all other rows of both (SimCLR).

    The mean over all 2N rows: half of ConSERT's two means, and 1 / 2N of DeCLUTR's sum (Eq. 2).

    Args:
        one: Name of a view.
        other: Name of the view of its partners.
        temperature: Divides the similarity.
        similarity: The encoder's.
        within_document: Rows of the own document are negatives too (DeCLUTR's hard negatives).
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        rows = _joined(batch.views[one], batch.views[other])
        both = torch.cat([vectors[one], vectors[other]])
        positive = positives(rows, rows)
        negative = negatives(rows, rows, positive, within_document=within_document)
        return loss_of_choice(both, both, positive, negative, temperature, similarity)

    return term


def loss_of_choice(
    queries: Float[Tensor, "n dim"],
    candidates: Float[Tensor, "m dim"],
    positive: Bool[np.ndarray, "n m"],
    negative: Bool[np.ndarray, "n m"],
    temperature: float,
    similarity: Similarity,
    *,
    bias: Float[np.ndarray, "n m"] | None = None,
    reduction: Reduction = "positives",
) -> tuple[Tensor, dict[str, float]]:
    """The kernel under masks of the batch, and how many anchors had nothing to choose against."""
    right, wrong = on_device(positive, queries), on_device(negative, queries)
    loss = info_nce(
        queries,
        candidates,
        right,
        wrong,
        temperature=temperature,
        similarity=similarity,
        bias=None if bias is None else on_device(bias, queries).to(queries.dtype),
        reduction=reduction,
    )
    return loss, {"unopposed_anchors": float(count_unopposed(right, wrong))}


def on_device(array: np.ndarray, like: Tensor) -> Tensor:
    """`array` where `like` is; its own type."""
    return torch.from_numpy(array).to(like.device)


def _joined(one: View, other: View) -> View:
    assert one.wording is other.wording is None, "both views say their texts"
    return View(
        tokens=one.tokens + other.tokens,
        document=np.concatenate([one.document, other.document]),
        group=np.concatenate([one.group, other.group]),
        text=np.concatenate([one.text, other.text]),
    )
