"""Score an encoder or a baseline on a task of the suite, and measure contamination."""

from collections.abc import Sequence

from sentemb_core.config.suite import DocumentVector, Fixed, ProbeTask, RetrievalTask, StsTask, Task
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED_SEED,
    Placed,
    encode_collection,
    measure_overlap,
    score_fixed,
    score_fixed_similarity,
    score_retrieval,
    score_similarity,
    score_transfer,
)

System = ArtifactRef | Fixed
"""An encoder, or a baseline."""


def reads_vectors(task: Task) -> bool:
    """Return whether a task needs vectors: baselines have similarities, and nothing to probe."""
    return isinstance(task, ProbeTask)


def result_on(
    place: Placed, system: System, vectors: DocumentVector = "text", seed: int = FIXED_SEED
) -> ArtifactRef:
    """Return the result of a system on one task.

    Args:
        place: The task and its files.
        system: The encoder or baseline.
        vectors: How a document becomes one vector.
        seed: Of the random baseline.
    """
    task, digests, folder = place.task, place.digests, place.folder
    if isinstance(system, ArtifactRef):
        match task:
            case RetrievalTask():
                encoded = encode_collection(system, task, vectors, digests, folder)
                return score_retrieval(encoded, task, digests, folder)
            case StsTask():
                return score_similarity(system, task, digests, folder)
            case ProbeTask():
                return score_transfer(system, task, digests, folder)
    seed = seed if system == "random" else FIXED_SEED
    match task:
        case RetrievalTask():
            return score_fixed(system, task, digests, folder, seed)
        case StsTask():
            return score_fixed_similarity(system, task, digests, folder, seed)
        case ProbeTask():
            raise AssertionError("a baseline has no vectors to probe")


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
