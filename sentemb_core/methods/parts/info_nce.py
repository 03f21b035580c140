"""Masked InfoNCE with any number of positives per anchor, and the terms that use it."""

from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Vectors,
)
from sentemb_core.methods.parts.views import Batch, View, negatives, positives
from sentemb_core.types import Similarity

Reduction = Literal["positives", "anchors"]

LOGITS = 1 << 20
"""Maximum number of logits in memory. A batch of 3,200 has ten times as many, and loss and gradient
hold five such matrices: under a gradient cache, most of the memory.
"""

EXACT_UP_TO = 40.0
"""From here on softplus(x) equals x in float64; torch switches at 20, with an error of 2e-9."""


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
    """Masked InfoNCE: each positive against the negatives of its anchor.

    For every positive (i, p): `softplus(logsumexp_{n in neg(i)} s_in - s_ip)`. This is the softmax
    cross-entropy with that one positive in the denominator (InfoNCE; mutual, Eq. 1 and 5:
    erratum E1). A positive is never a negative, even if `negative` says so. The masks of the caller
    exclude the anchor itself, its document and its duplicates.

    A row may have any number of positives, including none. A positive without negatives adds 0 and
    no gradient (see `count_unopposed`). `dot` is the literal inner product of mutual. `bias` is
    added to the logits after the temperature, without a gradient. The reduction `positives` is the
    mean over all positives (Eq. 5), `anchors` the mean over anchors of their positives' means.
    """
    queries, candidates = compared(queries, candidates, similarity)
    parts = (queries, candidates, positive, negative, bias, temperature, reduction)
    in_blocks = positive.numel() > LOGITS
    total = cast(Tensor, _InBlocks.apply(*parts)) if in_blocks else _total(*parts)
    counted = positive if reduction == "positives" else positive.any(dim=1)
    return total / max(1, int(counted.sum()))


def _total(
    queries: Float[Tensor, "n dim"],
    candidates: Float[Tensor, "m dim"],
    positive: Bool[Tensor, "n m"],
    negative: Bool[Tensor, "n m"],
    bias: Float[Tensor, "n m"] | None,
    temperature: float,
    reduction: Reduction,
) -> Float[Tensor, ""]:
    """Return the sum of the losses; `anchors` divides each by its anchor's number of positives."""
    logits = queries @ candidates.T / temperature
    if bias is not None:
        logits = logits + bias
    opposition = logits.masked_fill(~negative | positive, _lowest(logits)).logsumexp(dim=1)
    anchor, partner = positive.nonzero(as_tuple=True)
    margins = opposition[anchor] - logits[anchor, partner]
    losses = F.softplus(margins, threshold=EXACT_UP_TO)
    return (losses / positive.sum(dim=1)[anchor] if reduction == "anchors" else losses).sum()


class _InBlocks(torch.autograd.Function):
    """`_total` in blocks of anchors, with its gradient: the logits of a block are freed after it.

    `torch.utils.checkpoint` would do the same, but its import takes 75 MB.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - torch calls it by place
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        positive: Tensor,
        negative: Tensor,
        bias: Tensor | None,
        temperature: float,
        reduction: Reduction,
    ) -> Tensor:
        total = queries.new_zeros(())
        gradients = torch.zeros_like(queries), torch.zeros_like(candidates)
        height = max(1, LOGITS // len(candidates))
        for start in range(0, len(queries), height):
            rows = slice(start, start + height)
            added = None if bias is None else bias[rows]
            with torch.enable_grad():
                left, right = (end.detach().requires_grad_() for end in (queries[rows], candidates))
                masks = positive[rows], negative[rows]
                value = _total(left, right, *masks, added, temperature, reduction)
                of_queries, of_candidates = torch.autograd.grad(value, [left, right])
            total += value.detach()
            gradients[0][rows] = of_queries
            gradients[1].add_(of_candidates)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        return *(gradient * saved for saved in ctx.saved_tensors), *[None] * 5


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


def similarities(
    left: Float[Tensor, "n dim"], right: Float[Tensor, "m dim"], similarity: Similarity
) -> Float[Tensor, "n m"]:
    """Return all inner products; for `cosine`, of normalised vectors."""
    left, right = compared(left, right, similarity)
    return left @ right.T


def compared(
    left: Float[Tensor, "n dim"], right: Float[Tensor, "m dim"], similarity: Similarity
) -> tuple[Float[Tensor, "n dim"], Float[Tensor, "m dim"]]:
    """Return vectors whose inner products are the similarity."""
    if similarity == "cosine":
        return F.normalize(left, dim=-1), F.normalize(right, dim=-1)
    return left, right


def count_unopposed(positive: Bool[Tensor, "n m"], negative: Bool[Tensor, "n m"]) -> int:
    """Return the number of anchors that have a positive but no negative: they give no gradient."""
    opposed = (negative & ~positive).any(dim=1)
    return int((positive.any(dim=1) & ~opposed).sum())


def _lowest(logits: Tensor) -> float:
    """Return the value of a masked logit.

    It is finite, so a fully masked row has gradient 0 and not NaN. It is half of the type's
    minimum, so subtracting another logit cannot make it infinite.
    """
    return torch.finfo(logits.dtype).min / 2


def contrast(
    anchors: str,
    candidates: str,
    temperature: float,
    *,
    bilinear: bool = False,
    queue: bool = False,
) -> CrossSampleTerm:
    """InfoNCE term: rows of view `anchors` choose among rows of view `candidates` (one direction).

    Rows of one group are positives, but no row chooses itself. Rows of the same document and
    duplicate texts are not negatives. Between segments and the sequences that they form, this is
    HiCLv2's entailment term.

    With `bilinear`, the network of this name maps the anchors first (CPC's W_k). With `queue`, the
    keys [k, dim] of the network of this name are further negatives (ESimCSE). Their texts are
    unknown, so a duplicate of the anchor among them is a negative, too.
    """

    def term(vectors: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
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
        similarity = learner.encoder.similarity
        return loss_of_choice(queries, choices, positive, negative, temperature, similarity)

    return term


def all_pairs(
    one: str, other: str, temperature: float, *, within_document: bool = False
) -> CrossSampleTerm:
    """NT-Xent term: every row of both views chooses among all other rows of both (SimCLR).

    It is the mean over all 2N rows: half of ConSERT's two means, and 1 / 2N of DeCLUTR's sum (Eq.
    2). `within_document` allows DeCLUTR's hard negatives: rows of the same document.
    """

    def term(vectors: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
        rows = _joined(batch.views[one], batch.views[other])
        both = torch.cat([vectors[one], vectors[other]])
        positive = positives(rows, rows)
        negative = negatives(rows, rows, positive, within_document=within_document)
        similarity = learner.encoder.similarity
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
) -> LossAndMetrics:
    """Return the masked InfoNCE loss.

    Metrics are the number of anchors without a negative and, if there are any, of zero rows.
    """
    right, wrong = on_device(positive, queries), on_device(negative, queries)
    right, wrong, zero_rows = without_zero_rows(queries, candidates, right, wrong)
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
    return loss, {"unopposed_anchors": float(count_unopposed(right, wrong)), **zero_rows}


def without_zero_rows(
    queries: Float[Tensor, "n dim"],
    candidates: Float[Tensor, "m dim"],
    positive: Bool[Tensor, "n m"],
    negative: Bool[Tensor, "n m"],
) -> tuple[Bool[Tensor, "n m"], Bool[Tensor, "n m"], dict[str, float]]:
    """Return the masks without rows of zeros, and the number of these rows as a metric, if any.

    A sentence without a known word has a zero vector in an encoder of word vectors. It has no
    direction: normalising divides its gradient by 1e-12, and clipping then loses the whole step.
    """
    known, chosen = (rows.detach().any(dim=1) for rows in (queries, candidates))
    zero_rows = int((~known).sum()) + (0 if candidates is queries else int((~chosen).sum()))
    if not zero_rows:
        return positive, negative, {}
    both = known[:, None] & chosen
    return positive & both, negative & both, {"zero_rows": float(zero_rows)}


def on_device(array: np.ndarray, like: Tensor) -> Tensor:
    """Return `array` as a tensor on the device of `like`, with its own type."""
    return torch.from_numpy(array).to(like.device)


def _joined(one: View, other: View) -> View:
    assert one.wording is other.wording is None, "both views say their texts"
    return View(
        tokens=one.tokens + other.tokens,
        document=np.concatenate([one.document, other.document]),
        group=np.concatenate([one.group, other.group]),
        text=np.concatenate([one.text, other.text]),
    )
