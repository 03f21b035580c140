"""The one contrastive kernel: masked InfoNCE with any number of positives per anchor."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from sentemb_core.types import Similarity

Reduction = Literal["positives", "anchors", "sum"]

EXACT_UP_TO = 40.0
"""From here on softplus(x) is x in float64; torch's own switch at 20 is off by 2e-9."""


def info_nce(
    queries: Float[Tensor, "n dim"],
    candidates: Float[Tensor, "m dim"],
    positive: Bool[Tensor, "n m"],
    negative: Bool[Tensor, "n m"],
    *,
    temperature: float,
    similarity: Similarity,
    bias: Float[Tensor, "n m"] | None = None,
    reduction: Reduction = "positives",
) -> Float[Tensor, ""]:
    """Each positive alone against the negatives of its anchor.

    For every positive (i, p): `softplus(logsumexp_{n in neg(i)} s_in - s_ip)`, which is the softmax
    cross-entropy with that one positive in the denominator (InfoNCE; seed 000, Eq. 1 and 5:
    erratum E1). A positive is never a negative, whatever `negative` says; the caller's masks keep
    the anchor itself, its document and its duplicates out.

    Args:
        queries: Anchors.
        candidates: What they choose from.
        positive: Who is right for whom; any number per row, none included.
        negative: Who may be wrong for whom.
        temperature: Divides the similarity.
        similarity: `cosine`, or `dot` for the literal inner product of seed 000.
        bias: Added to the logits (after the temperature).
        reduction: `positives` is the mean over all positives (Eq. 5), `anchors` the mean over
            anchors of the mean over their positives, `sum` the sum over all positives.

    Returns:
        A scalar. A positive without any negative adds 0 and no gradient (see `count_unopposed`).
    """
    logits = similarities(queries, candidates, similarity) / temperature
    if bias is not None:
        logits = logits + bias
    opposition = logits.masked_fill(~negative | positive, _lowest(logits)).logsumexp(dim=1)
    anchor, partner = positive.nonzero(as_tuple=True)
    margins = opposition[anchor] - logits[anchor, partner]
    losses = F.softplus(margins, threshold=EXACT_UP_TO)
    return _reduced(losses, anchor, positive, reduction)


def similarities(
    left: Float[Tensor, "n dim"], right: Float[Tensor, "m dim"], similarity: Similarity
) -> Float[Tensor, "n m"]:
    """All inner products, of normalised vectors for `cosine`."""
    if similarity == "cosine":
        left, right = F.normalize(left, dim=-1), F.normalize(right, dim=-1)
    return left @ right.T


def count_unopposed(positive: Bool[Tensor, "n m"], negative: Bool[Tensor, "n m"]) -> int:
    """Anchors with a positive that have no negative: they teach nothing."""
    opposed = (negative & ~positive).any(dim=1)
    return int((positive.any(dim=1) & ~opposed).sum())


def _lowest(logits: Tensor) -> float:
    """Finite: a fully masked row has a vanishing gradient; halved: less a logit it stays so."""
    return torch.finfo(logits.dtype).min / 2


def _reduced(
    losses: Float[Tensor, " pairs"], anchor: Tensor, positive: Tensor, reduction: Reduction
) -> Float[Tensor, ""]:
    if reduction == "sum":
        return losses.sum()
    if reduction == "positives":
        return losses.sum() / max(1, len(losses))
    per_anchor = positive.sum(dim=1)
    return (losses / per_anchor[anchor]).sum() / max(1, int((per_anchor > 0).sum()))
