"""Terms that ask for a margin between similarities: SNCSE's, and that of CONPONO's code."""

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from sentemb_core.losses.info_nce import similarities
from sentemb_core.losses.margin import bidirectional_margin, hardest_negative_margin
from sentemb_core.methods.contrast import on_device
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.types import Similarity
from sentemb_core.views.batch import Batch, negatives, positives


def soft_negative(
    anchors: str, partners: str, soft_negatives: str, *, low: float, high: float
) -> CrossSampleTerm:
    """SNCSE: row by row, the negated sentence lies between `low` and `high` below the positive."""

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        anchor = vectors[anchors]
        near = F.cosine_similarity(anchor, vectors[partners])
        far = F.cosine_similarity(anchor, vectors[soft_negatives])
        return bidirectional_margin(near, far, low=low, high=high), {}

    return term


def hardest_negative(
    anchors: str,
    candidates: str,
    similarity: Similarity,
    *,
    margin: float = 1.0,
    bilinear: bool = False,
) -> CrossSampleTerm:
    """CONPONO's code: a positive beats the hardest negative by `margin`; masks as in `contrast`."""

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        positive = positives(left, right)
        queries = vectors[anchors]
        if bilinear:
            queries = learner.networks["bilinear"](queries)
        loss = hardest_negative_margin(
            similarities(queries, vectors[candidates], similarity),
            on_device(positive, queries),
            on_device(negatives(left, right, positive), queries),
            margin=margin,
        )
        return loss, {}

    return term
