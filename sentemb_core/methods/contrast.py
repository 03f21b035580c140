"""The term that all four methods share: InfoNCE between two views."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sentemb_core.losses.info_nce import count_unopposed, info_nce
from sentemb_core.methods.method import CrossSampleTerm
from sentemb_core.types import Similarity
from sentemb_core.views.batch import Batch, negatives, positives


def contrast(
    anchors: str, candidates: str, temperature: float, similarity: Similarity
) -> CrossSampleTerm:
    """Rows of view `anchors` choose among rows of view `candidates` (one direction).

    Positives share the group; the document and duplicate texts are blocked as negatives.
    """

    def term(vectors: Mapping[str, Tensor], batch: Batch) -> tuple[Tensor, dict[str, float]]:
        left, right = batch.views[anchors], batch.views[candidates]
        right_for = positives(left, right)
        device = vectors[anchors].device
        positive = torch.from_numpy(right_for).to(device)
        negative = torch.from_numpy(negatives(left, right, right_for)).to(device)
        loss = info_nce(
            vectors[anchors],
            vectors[candidates],
            positive,
            negative,
            temperature=temperature,
            similarity=similarity,
        )
        return loss, {"unopposed_anchors": float(count_unopposed(positive, negative))}

    return term
