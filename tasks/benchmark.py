"""Stages of the evaluation suite: results on tasks, diagnostics, contamination, comparisons."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import (
    DocumentVector,
    Fixed,
    ProbeTask,
    RetrievalTask,
    StsTask,
    SuiteTask,
    Task,
)
from sentemb_core.errors import BadDataError
from sentemb_core.store.objects import file_digest
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.artifacts import artifact_path, new_artifact, read_json, save_json
from tasks.sources import require_same_bytes
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.corpus.validation_pool import PoolReport
    from sentemb_core.evaluation.collections import Collection
    from sentemb_core.evaluation.comparison import Comparison
    from sentemb_core.evaluation.contamination import Overlap
    from sentemb_core.evaluation.label_free import Diagnosis
    from sentemb_core.evaluation.sts import StsPairs
    from sentemb_core.evaluation.task_result import TaskResult

log = logging.getLogger("sentemb_core.run")

FIXED_SEED = 0
"""Seed of baselines that draw nothing: they have one key for all seeds."""


class ScoredRetriever(Value):
    """Results of a whole retriever, and of its vectors alone if it has other parts."""

    whole: ArtifactRef
    vectors: ArtifactRef | None = None


class Placed(Value):
    """A task in its folder: the SHA-256 of each file in order, or the missing files."""

    task: SuiteTask
    folder: str
    digests: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def placed(task: Task, folder: Path) -> Placed:
    """Return the task with its digests, computed at every run: an edited file is another task."""
    missing = tuple(file for file in task.files if not (folder / file).is_file())
    digests = () if missing else tuple(file_digest(folder / file) for file in task.files)
    return Placed(task=task, folder=str(folder), digests=digests, missing=missing)


def files_of(task: Task, folder: str) -> list[Path]:
    """Return the paths of a task's files, in order."""
    return [Path(folder) / file for file in task.files]


def collection_in(task: RetrievalTask, digests: tuple[str, ...], folder: str) -> "Collection":
    """Read a collection from files with these digests."""
    from sentemb_core.evaluation.collection_files import read_collection

    collection = read_collection(task, Path(folder))
    require_same_bytes(files_of(task, folder), digests)
    return collection


def pairs_in(task: StsTask, digests: tuple[str, ...], folder: str) -> "StsPairs":
    """Read scored pairs from files with these digests."""
    from sentemb_core.evaluation.sts import read_sts

    pairs = read_sts(*files_of(task, folder))
    require_same_bytes(files_of(task, folder), digests)
    return pairs


@stage("kept_encoder", version=2, ignore=("folder",))
def kept_encoder(folder: str, digest: str) -> ArtifactRef:
    """Save the encoder of any folder as an artifact, with its settings.

    `digest` is of the folder's files; their place does not matter.
    """
    from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
    from sentemb_core.encoder.prompts import warn_without_prompts

    card = Path(folder) / "README.md"
    encoder = load_encoder(Path(folder))
    warn_without_prompts(folder, Path(folder), encoder.prompts)
    with new_artifact("model") as draft:
        text = card.read_text("utf-8") if card.is_file() else ""
        save_encoder(encoder, draft.path, text, head_from=Path(folder))
        require_same_bytes([folder], [digest])
    return draft.ref


@stage("score_similarity", version=2, ignore=("folder",), numeric=("device",))
def score_similarity(
    encoder: ArtifactRef, task: StsTask, digests: tuple[str, ...], folder: str
) -> ArtifactRef:
    """Correlate an encoder's cosines with human scores."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.sts import similarities, sts_result

    pairs = pairs_in(task, digests, folder)
    found = similarities(loaded_encoder(artifact_path(encoder)), pairs)
    return kept_result(sts_result(task.name, pairs, found))


@stage("score_fixed_similarity", version=1, ignore=("folder",), libraries=("bm25s",))
def score_fixed_similarity(
    system: Fixed, task: StsTask, digests: tuple[str, ...], folder: str, seed: int
) -> ArtifactRef:
    """Score the pairs by BM25, by chance (drawn by the seed) or by a constant."""
    import numpy as np

    from sentemb_core.evaluation.bm25_scores import word_similarities
    from sentemb_core.evaluation.sts import random_similarities, sts_result

    pairs = pairs_in(task, digests, folder)
    match system:
        case "BM25":
            found = word_similarities(pairs)
        case "random":
            found = random_similarities(pairs, seed)
        case "constant":
            found = np.ones(len(pairs))
    return kept_result(sts_result(task.name, pairs, found))


@stage(
    "encode_collection", version=1, ignore=("folder",), numeric=("device",), libraries=("syntok",)
)
def encode_collection(
    encoder: ArtifactRef,
    task: RetrievalTask,
    form: DocumentVector,
    digests: tuple[str, ...],
    folder: str,
) -> ArtifactRef:
    """Encode queries and documents; `form` says how a document becomes a vector."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.collection_vectors import collection_vectors, write_vectors

    collection = collection_in(task, digests, folder)
    vectors = collection_vectors(loaded_encoder(artifact_path(encoder)), collection, form)
    with new_artifact("vectors") as draft:
        write_vectors(vectors, draft.path)
    return draft.ref


@stage("score_retrieval", version=2, ignore=("folder",))
def score_retrieval(
    vectors: ArtifactRef, task: RetrievalTask, digests: tuple[str, ...], folder: str
) -> ArtifactRef:
    """Score retrieval by these vectors."""
    from sentemb_core.evaluation.collection_scores import retrieval_result
    from sentemb_core.evaluation.collection_vectors import read_vectors

    collection = collection_in(task, digests, folder)
    return kept_result(retrieval_result(read_vectors(artifact_path(vectors)), collection))


@stage("kept_retriever", version=1, ignore=("folder",))
def kept_retriever(folder: str, digest: str) -> ArtifactRef:
    """Save the retriever of any folder as an artifact, the one that its run published.

    `digest` is of the folder's files; their place does not matter.
    """
    from sentemb_core.retriever.folder import load_retriever, save_retriever

    card = Path(folder) / "README.md"
    with new_artifact("model") as draft:
        text = card.read_text("utf-8") if card.is_file() else ""
        save_retriever(load_retriever(Path(folder)), draft.path, text)
        require_same_bytes([folder], [digest])
    return draft.ref


@stage(
    "score_retriever",
    version=1,
    ignore=("folder",),
    numeric=("device",),
    libraries=("bm25s", "syntok"),
)
def score_retriever(
    retriever: ArtifactRef, task: RetrievalTask, digests: tuple[str, ...], folder: str
) -> ScoredRetriever:
    """Score retrieval by all parts of a retriever, and by its vectors alone."""
    from sentemb_core.retriever.folder import load_retriever
    from sentemb_core.retriever.results import retriever_results

    collection = collection_in(task, digests, folder)
    found = retriever_results(load_retriever(artifact_path(retriever)), collection)
    return ScoredRetriever(
        whole=kept_result(found.whole),
        vectors=kept_result(found.vectors) if found.vectors else None,
    )


@stage("score_fixed", version=2, ignore=("folder",), libraries=("bm25s",))
def score_fixed(
    system: Fixed, task: RetrievalTask, digests: tuple[str, ...], folder: str, seed: int
) -> ArtifactRef:
    """Score retrieval by BM25, by chance (drawn by the seed), or by the order of the ids."""
    from sentemb_core.evaluation.collection_scores import (
        bm25_result,
        constant_result,
        random_result,
    )

    collection = collection_in(task, digests, folder)
    match system:
        case "BM25":
            return kept_result(bm25_result(collection))
        case "random":
            return kept_result(random_result(collection, seed))
        case "constant":
            return kept_result(constant_result(collection))


@stage(
    "score_transfer",
    version=2,
    ignore=("folder",),
    numeric=("device",),
    libraries=("scikit-learn",),
)
def score_transfer(
    encoder: ArtifactRef, task: ProbeTask, digests: tuple[str, ...], folder: str
) -> ArtifactRef:
    """Score a linear probe on an encoder's frozen vectors."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.transfer import transfer_result
    from sentemb_core.evaluation.transfer_files import read_probe

    examples = read_probe(task, Path(folder))
    require_same_bytes(files_of(task, folder), digests)
    return kept_result(transfer_result(loaded_encoder(artifact_path(encoder)), examples))


@stage("score_case", version=1, numeric=("device",))
def score_case(encoder: ArtifactRef) -> ArtifactRef:
    """Score how an encoder groups the eight titles of appendix D (mutual)."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.appendix_d import case_result, labels_by

    return kept_result(case_result(labels_by(loaded_encoder(artifact_path(encoder)))))


@stage("diagnose_on_pairs", version=2, ignore=("file",), numeric=("device",))
def diagnose_on_pairs(encoder: ArtifactRef, digest: str, file: str) -> ArtifactRef:
    """Compute alignment, uniformity and other diagnostics on similar pairs."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.label_free import pairs_diagnosis
    from sentemb_core.evaluation.sts import read_sts

    pairs = read_sts(Path(file))
    require_same_bytes([file], [digest])
    found = pairs_diagnosis(loaded_encoder(artifact_path(encoder)), pairs)
    return save_json("diagnosis", found.model_dump())


@stage("diagnose_on_halves", version=2, numeric=("device",))
def diagnose_on_halves(encoder: ArtifactRef, documents: ArtifactRef) -> ArtifactRef:
    """Compute alignment, uniformity and other diagnostics on halves of documents."""
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.label_free import halves_diagnosis

    found = halves_diagnosis(loaded_encoder(artifact_path(encoder)), artifact_path(documents))
    return save_json("diagnosis", found.model_dump())


@stage("measure_overlap", version=3, ignore=("folders",))
def measure_overlap(
    documents: ArtifactRef,
    tasks: list[SuiteTask],
    digests: list[tuple[str, ...]],
    folders: list[str],
    beir_documents: bool,
) -> ArtifactRef:
    """Measure how much evaluation text occurs in a training corpus.

    A task whose files cannot be read is left out; its scores have the error.
    """
    from sentemb_core.corpus.table import read_documents
    from sentemb_core.evaluation.contamination import overlaps, task_texts

    texts: dict[str, list[str]] = {}
    for task, folder in zip(tasks, folders, strict=True):
        try:
            texts |= task_texts(task, Path(folder), beir_documents=beir_documents)
        except BadDataError as error:
            log.warning("overlap with %s not measured: %s", task.name, error)
    for task, folder, known in zip(tasks, folders, digests, strict=True):
        require_same_bytes(files_of(task, folder), known)
    corpus = read_documents(artifact_path(documents) / "documents.parquet")
    found = overlaps((document.sentences for document in corpus), texts)
    return save_json("overlap", {name: one.model_dump() for name, one in found.items()})


@stage("compare_results", version=1)
def compare_results(task: str, pairs: list[tuple[ArtifactRef, ArtifactRef]]) -> ArtifactRef:
    """Compute the paired difference of two systems on one task, or on an average of several."""
    from sentemb_core.evaluation.comparison import average_comparison

    results = [(result_of(one), result_of(other)) for one, other in pairs]
    return save_json("comparison", average_comparison(task, results).model_dump())


def kept_result(result: "TaskResult") -> ArtifactRef:
    """Save result.json, units.parquet, and interval.json: the bootstrap costs seconds."""
    from sentemb_core.evaluation.comparison import interval
    from sentemb_core.evaluation.task_result import write_result

    found = interval(result)
    with new_artifact("result") as draft:
        write_result(result, draft.path)
        bounds = json.dumps({"low": found.low, "high": found.high})
        (draft.path / "interval.json").write_text(bounds, encoding="utf-8")
    return draft.ref


def result_of(artifact: ArtifactRef) -> "TaskResult":
    """Read the result of a score stage."""
    from sentemb_core.evaluation.task_result import read_result

    return read_result(artifact_path(artifact))


def diagnosis_of(artifact: ArtifactRef) -> "Diagnosis":
    """Read the result of a diagnosis stage."""
    from sentemb_core.evaluation.label_free import Diagnosis

    return Diagnosis.model_validate(read_json(artifact, "diagnosis"))


def overlaps_of(artifact: ArtifactRef) -> "dict[str, Overlap]":
    """Read the result of `measure_overlap`."""
    from sentemb_core.evaluation.contamination import Overlap

    found = read_json(artifact, "overlap")
    return {name: Overlap.model_validate(one) for name, one in found.items()}


def largest_overlaps(artifacts: Sequence[ArtifactRef]) -> "dict[str, Overlap]":
    """Return each set's largest overlap with any of several corpora, by runs and by whole texts."""
    found = [one for artifact in artifacts for one in overlaps_of(artifact).items()]
    most: dict[str, Overlap] = {}
    for name, one in sorted(found, key=lambda pair: (pair[1].runs or 0.0, pair[1].exact)):
        exact = max(one.exact, most.get(name, one).exact)
        most[name] = one.model_copy(update={"exact": exact})
    return most


def pool_reports(pools: Mapping[str, ArtifactRef]) -> "dict[str, PoolReport]":
    """Return the reports of validation pools."""
    from sentemb_core.corpus.validation_pool import PoolReport

    return {
        name: PoolReport.model_validate(read_json(pool, "pool")) for name, pool in pools.items()
    }


def comparison_of(artifact: ArtifactRef) -> "Comparison":
    """Read the result of `compare_results`."""
    from sentemb_core.evaluation.comparison import Comparison

    return Comparison.model_validate(read_json(artifact, "comparison"))


ALONE = ("bm25", "encoder")
JOINED = ("rescored", "fused")


@stage("score_fusion", version=5, ignore=("folder",), libraries=("bm25s",))
def score_fusion(
    vectors: ArtifactRef, task: RetrievalTask, digests: tuple[str, ...], folder: str
) -> ArtifactRef:
    """BM25, the encoder, BM25 + alpha x cosine, and reciprocal rank fusion on the same queries.

    Half of the queries chooses alpha (`curve`: alpha -> the main measure). The other half gives all
    other values: of each system, and the gains of both fusions over BM25 and over the encoder.
    """
    from sentemb_core.evaluation.collection_scores import fused_results
    from sentemb_core.evaluation.collection_vectors import read_vectors
    from sentemb_core.evaluation.comparison import comparison, interval

    collection = collection_in(task, digests, folder)
    found = fused_results(read_vectors(artifact_path(vectors)), collection)
    values: list[Json] = []
    for system, result in found.results.items():
        bounds = interval(result)
        values.append(
            {"system": system, "value": result.value, "low": bounds.low, "high": bounds.high}
        )
    for system in JOINED:
        for alone in ALONE:
            gain = comparison(found.results[system], found.results[alone])
            bounds = {"value": gain.difference, "low": gain.low, "high": gain.high}
            values.append({"system": system, "baseline": alone, **bounds})
    joined = found.results["rescored"]
    return save_json(
        "fusion",
        {
            "measure": joined.main,
            "queries": joined.counted,
            "alpha": found.alpha,
            "curve": dict(found.curve),
            "values": values,
        },
    )
