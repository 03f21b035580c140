"""Labelled pairs of a run: checked against the corpus, and drawn to fine-tune on."""

import logging

from sentemb_core.config.run import CorpusConfig, LabelsConfig, RunConfig
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path, new_artifact
from tasks.checks import learns_from_labels, silent
from tasks.execution import is_pending
from tasks.rows import Labelled
from tasks.sources import require_unchanged
from tasks.stage import stage

log = logging.getLogger("sentemb_core.run")


@stage("read_labels", version=5, ignore=("corpus_place", "place"))
def read_labels(
    documents: ArtifactRef,
    corpus_place: str,
    corpus: CorpusConfig,
    place: str,
    config: LabelsConfig,
) -> ArtifactRef:
    """The documents again, with the counterparts that a file of labels gives.

    Each `source` is the SHA-256 of the bytes, of the corpus's and of the file's; where they lie
    does not matter.
    """
    from sentemb_core.corpus.label_files import REJECTED, write_with_labels

    with new_artifact("documents") as draft:
        read = corpus.model_copy(update={"source": corpus_place})
        named = config.model_copy(update={"source": place})
        with silent("sentemb_core.corpus.columns"):  # as where the corpus was read first
            refused = write_with_labels(artifact_path(documents), read, named, draft.path)
        require_unchanged(corpus_place, corpus)
        require_unchanged(place, config)
    if refused:
        log.warning(
            "labels kept aside, with their reasons: %s", artifact_path(draft.ref) / REJECTED
        )
    return draft.ref


def check_drawn(documents: ArtifactRef, benchmark: ArtifactRef, config: RunConfig) -> None:
    """Refuse labels that have nothing to contrast with (E102) before anything is trained.

    A plan goes on without it.
    """
    from sentemb_core.corpus.labels import drawn_labels

    if learns_from_labels(config) and not is_pending(benchmark):
        share, count = config.validation.label_share, config.labels.count
        drawn_labels(artifact_path(documents), artifact_path(benchmark), share, count)


@stage("draw_labels", version=2)
def draw_labels(
    documents: ArtifactRef, benchmark: ArtifactRef, share: float, count: int | None
) -> Labelled:
    """Labels to train on, the first by hash; none of them is judged by."""
    from sentemb_core.corpus.labels import write_labelled

    with new_artifact("documents") as draft:
        report = write_labelled(
            artifact_path(documents), artifact_path(benchmark), share, count, draft.path
        )
    return Labelled(documents=draft.ref, count=report.labels)
