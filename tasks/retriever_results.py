"""Stages that keep a retriever of any folder and score it on the suite's retrieval tasks."""

from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import RetrievalTask
from sentemb_core.types import ArtifactRef, Value
from tasks.artifacts import artifact_path, new_artifact
from tasks.benchmark import collection_in, kept_result
from tasks.sources import require_same_bytes
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.retriever.spec import RetrieverSpec


ALONE = "vectors alone"


class RetrieverSystem(Value):
    """A retriever in a table.

    Attributes:
        retriever: All its parts.
        encoder: Its root encoder; None for a retriever of words alone.
        parts: Its parts in words.
        has_vectors_alone: Whether its vectors have a line of their own.
    """

    retriever: ArtifactRef
    encoder: ArtifactRef | None
    parts: tuple[str, ...]
    has_vectors_alone: bool


class ScoredRetriever(Value):
    """Results of a whole retriever, and of its vectors alone if it has other parts."""

    whole: ArtifactRef
    vectors: ArtifactRef | None = None


def vectors_label(label: str) -> str:
    """Return the name of a retriever's vectors in a table."""
    return f"{label}, {ALONE}"


def retriever_in(folder: Path) -> "RetrieverSpec | None":
    """Return what retriever.json of a folder states; None without the file.

    Raises:
        BadDataError: the file is broken or of another form.
    """
    from sentemb_core.retriever.folder import retriever_file

    stated = retriever_file(folder)
    return stated.spec if stated else None


@stage("kept_retriever", version=1, ignore=("folder",))
def kept_retriever(folder: str, digest: str) -> ArtifactRef:
    """Save the retriever of any folder as an artifact.

    `digest` is of the folder's files; their place does not matter.
    """
    from sentemb_core.retriever.folder import load_retriever, save_retriever

    card = Path(folder) / "README.md"
    with new_artifact("retriever") as draft:
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
