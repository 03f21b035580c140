"""Score an encoder, a retriever or a baseline on a task of the suite, and measure contamination."""

from collections.abc import Sequence

from sentemb_core.config.suite import DocumentVector, ProbeTask, RetrievalTask, StsTask, Task
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED_SEED,
    Placed,
    encode_collection,
    measure_overlap,
    score_fixed,
    score_fixed_similarity,
    score_retrieval,
    score_retriever,
    score_similarity,
    score_transfer,
)
from tasks.retriever_systems import RetrieverSystem, System


def can_score(system: System, task: Task) -> bool:
    """Return whether a system has scores on a task: words alone are scored on retrieval only."""
    if isinstance(system, RetrieverSystem):
        return bool(system.encoder) or isinstance(task, RetrievalTask)
    return isinstance(system, ArtifactRef) or not reads_vectors(task)


def reads_vectors(task: Task) -> bool:
    """Return whether a task needs vectors: baselines have similarities, and nothing to probe."""
    return isinstance(task, ProbeTask)


def result_on(
    place: Placed, system: System, vectors: DocumentVector = "text", seed: int = FIXED_SEED
) -> ArtifactRef:
    """Return the result of a system on one task.

    Where a task compares vectors, a retriever is scored by its root encoder.

    Args:
        place: The task and its files.
        system: The encoder, retriever or baseline.
        vectors: How a document becomes one vector.
        seed: Of the random baseline.
    """
    task, digests, folder = place.task, place.digests, place.folder
    if isinstance(system, RetrieverSystem):
        if isinstance(task, RetrievalTask):
            return score_retriever(system.retriever, task, digests, folder).whole
        assert system.encoder, "words alone have no vectors to compare"
        system = system.encoder
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


def vectors_result_on(place: Placed, system: RetrieverSystem) -> ArtifactRef:
    """Return the result of a retriever's vectors alone on a retrieval task."""
    assert isinstance(place.task, RetrievalTask)
    found = score_retriever(system.retriever, place.task, place.digests, place.folder)
    assert found.vectors, "the retriever has vectors beside other parts"
    return found.vectors


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
