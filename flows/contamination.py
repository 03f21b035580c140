"""Overlap of evaluation texts with a training corpus."""

from collections.abc import Sequence

from sentemb_core.types import ArtifactRef
from tasks.benchmark import Placed, measure_overlap


def overlap_with(
    documents: ArtifactRef, places: Sequence[Placed], *, beir_documents: bool = True
) -> ArtifactRef:
    """Return how much of the texts of these tasks a training corpus contains.

    Args:
        documents: The corpus.
        places: The tasks.
        beir_documents: Whether documents of BEIR are compared, not only queries.
    """
    return measure_overlap(
        documents,
        [one.task for one in places],
        [one.digests for one in places],
        [one.folder for one in places],
        beir_documents,
    )
