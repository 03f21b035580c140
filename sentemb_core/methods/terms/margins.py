"""The term that asks for a margin between similarities (SNCSE)."""

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from sentemb_core.losses.margin import bidirectional_margin
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.views.batch import Batch


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
