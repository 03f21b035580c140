"""A system on a task of the evaluation suite: an encoder, or a row that none is needed for."""

from sentemb_core.suite import DocumentVector, ProbeTask, RetrievalTask, StsTask
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED_SEED,
    Fixed,
    Placed,
    encode_collection,
    score_fixed,
    score_retrieval,
    score_similarity,
    score_transfer,
)

System = ArtifactRef | Fixed
"""An encoder, or a row that no model moves."""


def result_on(
    place: Placed, system: System, vectors: DocumentVector = "text", seed: int = FIXED_SEED
) -> ArtifactRef:
    """The result of a system on one task; fixed rows are of retrieval alone.

    Args:
        place: The task and its files.
        system: Who is scored.
        vectors: How an encoder's document becomes one vector.
        seed: Of the random row; the others have nothing to draw.
    """
    task, digests, folder = place.task, place.digests, place.folder
    if not isinstance(system, ArtifactRef):
        assert isinstance(task, RetrievalTask), "fixed rows only retrieve"
        drawn = seed if system == "random" else FIXED_SEED
        return score_fixed(system, task, digests, folder, drawn)
    match task:
        case RetrievalTask():
            encoded = encode_collection(system, task, vectors, digests, folder)
            return score_retrieval(encoded, task, digests, folder)
        case StsTask():
            return score_similarity(system, task, digests, folder)
        case ProbeTask():
            return score_transfer(system, task, digests, folder)
