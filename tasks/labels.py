"""Labelled pairs of a run: checked against the corpus, and drawn to fine-tune on."""

import logging

from sentemb_core.configs import CorpusConfig, LabelsConfig, RunConfig
from sentemb_core.types import ArtifactRef
from tasks.caching import stage
from tasks.checks import learns_from_labels, silent
from tasks.rows import Labelled
from tasks.sources import require_unchanged
from tasks.storing import opened, written
from tasks.walking import is_pending

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

    with written("documents") as draft:
        read = corpus.model_copy(update={"source": corpus_place})
        named = config.model_copy(update={"source": place})
        with silent("sentemb_core.corpus.columns"):  # as where the corpus was read first
            refused = write_with_labels(opened(documents), read, named, draft.path)
        require_unchanged(corpus_place, corpus)
        require_unchanged(place, config)
    if refused:
        log.warning("labels kept aside, with their reasons: %s", opened(draft.ref) / REJECTED)
    return draft.ref


def check_drawn(documents: ArtifactRef, benchmark: ArtifactRef, config: RunConfig) -> None:
    """Refuse labels that have nothing to contrast with (E102) before anything is trained.

    A plan goes on without it.
    """
    from sentemb_core.corpus.labels import drawn_labels

    if learns_from_labels(config) and not is_pending(benchmark):
        share, count = config.validation.label_share, config.labels.count
        drawn_labels(opened(documents), opened(benchmark), share, count)


@stage("draw_labels", version=2)
def draw_labels(
    documents: ArtifactRef, benchmark: ArtifactRef, share: float, count: int | None
) -> Labelled:
    """Labels to train on, the first by hash; none of them is judged by."""
    from sentemb_core.corpus.labels import write_labelled

    with written("documents") as draft:
        report = write_labelled(opened(documents), opened(benchmark), share, count, draft.path)
    return Labelled(documents=draft.ref, count=report.labels)
