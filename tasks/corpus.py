"""Documents, labels, the validation pool and tokens: each read once, cached for all."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sentemb_core.config.methods import ICT, MethodSettings
from sentemb_core.config.run import CorpusConfig, LabelsConfig, RunConfig, ValidationConfig
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path, new_artifact, read_json
from tasks.checks import entry_of, learns_from_labels, silent
from tasks.execution import is_pending
from tasks.run_result import Labelled
from tasks.sources import require_unchanged
from tasks.stage import stage, working_folder

if TYPE_CHECKING:
    from sentemb_core.corpus.documents import CorpusReport

log = logging.getLogger("sentemb_core.run")


@stage("read_corpus", version="1", ignore=("place",), libraries=("syntok", "markdown-it-py"))
def read_corpus(place: str, config: CorpusConfig) -> ArtifactRef:
    """Usable documents as sentence lists, beside the quarantine and the counts.

    `config.source` is the SHA-256 of the corpus's bytes; where they lie does not matter.
    """
    from sentemb_core.corpus.documents import write_documents

    read = working_folder()  # stays if the corpus is refused: the quarantine says why
    with silent("sentemb_core.corpus.columns"):  # `check_corpus` has told what it guessed
        write_documents(config.model_copy(update={"source": place}), read)
    require_unchanged(place, config)
    with new_artifact("documents") as draft:
        for file in sorted(read.iterdir()):
            file.rename(draft.path / file.name)
    for told in refused_rows(draft.ref):
        log.warning("%s", told)
    return draft.ref


def refused_rows(documents: ArtifactRef) -> list[str]:
    """A line that says how many rows of a corpus were refused, and where why; none if none was."""
    report = corpus_report(documents)
    if not report.quarantined:
        return []
    return [f"{report.refused_summary()}: {artifact_path(documents) / 'quarantine.parquet'}"]


def corpus_report(documents: ArtifactRef) -> "CorpusReport":
    """What became of every row."""
    from sentemb_core.corpus.documents import CorpusReport

    return CorpusReport.model_validate(read_json(documents, "report"))


def require_multi_sentence(documents: ArtifactRef, methods: Iterable[MethodSettings]) -> None:
    """Refuse (E102) documents of one sentence for a method that pairs two of them.

    Before the pool is drawn, which refuses them too where nothing else can judge: a person
    should not look for counterparts for what no method learns from. A plan goes on without it.
    """
    if is_pending(documents):
        return
    from sentemb_core.corpus.documents import require_pairs

    told = corpus_report(documents)
    counts = told.documents, told.documents_with_pairs, told.documents_with_counterpart
    for method in methods:
        entry = entry_of(method.name)
        if entry.pairs_sentences and not _keeps_the_query(method):
            require_pairs(*counts, entry.name, entry.what)


def _keeps_the_query(method: MethodSettings) -> bool:
    """Whether it is inverse cloze whose context has the sentence, too, if nothing else."""
    return isinstance(method, ICT) and method.removal == 0


def document_count(documents: ArtifactRef) -> int:
    """Usable documents of a corpus."""
    import pyarrow.parquet as pq

    return pq.read_metadata(artifact_path(documents) / "documents.parquet").num_rows


@stage("draw_validation_pool", version="2")
def draw_validation_pool(documents: ArtifactRef, config: ValidationConfig) -> ArtifactRef:
    """The fixed pool of candidates and the three frozen splits of queries."""
    from sentemb_core.corpus.validation_pool import write_validation_pool

    with new_artifact("validation_pool") as draft:
        write_validation_pool(artifact_path(documents) / "documents.parquet", config, draft.path)
    return draft.ref


@stage("tokenise_sentences", version="3")
def tokenise_sentences(
    documents: ArtifactRef, validation_pool: ArtifactRef | None, encoder: ArtifactRef
) -> ArtifactRef:
    """The token cache that every round and method reuses; no validation pool holds nothing out."""
    from sentemb_core.corpus.tokenise import write_tokens
    from sentemb_core.encoder.checkpoint import load_encoder

    reader = load_encoder(artifact_path(encoder))
    with new_artifact("sentences") as draft:
        write_tokens(
            artifact_path(documents) / "documents.parquet",
            artifact_path(validation_pool) if validation_pool else None,
            artifact_path(encoder) / "tokenizer.json",
            reader.max_length,
            draft.path,
            add_special_tokens=reader.add_special_tokens,
            unknown=reader.unknown_id,
        )
    return draft.ref


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


def require_label_pairs(
    documents: ArtifactRef, validation_pool: ArtifactRef, config: RunConfig
) -> None:
    """Refuse labels that have nothing to contrast with (E102) before anything is trained.

    A plan goes on without it.
    """
    from sentemb_core.corpus.labels import drawn_labels

    if learns_from_labels(config) and not is_pending(validation_pool):
        share, count = config.validation.label_share, config.labels.count
        drawn_labels(artifact_path(documents), artifact_path(validation_pool), share, count)


@stage("draw_labels", version=2)
def draw_labels(
    documents: ArtifactRef, validation_pool: ArtifactRef, share: float, count: int | None
) -> Labelled:
    """Labels to train on, the first by hash; none of them is judged by."""
    from sentemb_core.corpus.labels import write_labelled

    with new_artifact("documents") as draft:
        report = write_labelled(
            artifact_path(documents), artifact_path(validation_pool), share, count, draft.path
        )
    return Labelled(documents=draft.ref, count=report.labels)
