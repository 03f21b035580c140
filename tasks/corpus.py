"""Documents, labels, the validation pool and tokens: each read once, cached for all."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.methods import ICT, MethodSettings
from sentemb_core.config.run import CorpusConfig, LabelsConfig, RunConfig, ValidationConfig
from sentemb_core.types import ArtifactRef, Value
from tasks.artifacts import Labelled, artifact_path, new_artifact, read_json
from tasks.checks import learns_from_labels, silent
from tasks.execution import is_pending, skip_unknown_results
from tasks.shards import set_parts
from tasks.sources import require_unchanged
from tasks.stage import stage, working_folder

if TYPE_CHECKING:
    from sentemb_core.corpus.documents import CorpusReport

log = logging.getLogger("sentemb_core.run")


@stage("shard_size", version=1, ignore=("documents",))
def shard_size(documents: ArtifactRef, corpus: CorpusConfig) -> int:
    """Return the sentences of a full shard of a corpus: as at the first reading of this place.

    `corpus` names its place and columns, so the answer stays when documents come or go.
    """
    from sentemb_core.corpus import split

    size = split.corpus_size(artifact_path(documents) / "documents.parquet")
    return split.shard_size(size, split.FIRST, split.SHARD_SENTENCES)


class Split(Value):
    """The documents of a corpus in shards."""

    shards: list[ArtifactRef]


@stage("split_documents", version=1)
def split_documents(documents: ArtifactRef, full: int) -> Split:
    """Return the documents in shards of at most `full` sentences, in their order."""
    from sentemb_core.corpus.split import shards_of, write_shard

    shards: list[ArtifactRef] = []
    for table in shards_of(artifact_path(documents) / "documents.parquet", full):
        with new_artifact("documents") as draft:
            write_shard(table, draft.path)
        shards.append(draft.ref)
    return Split(shards=shards)


def in_shards(documents: ArtifactRef, corpus: CorpusConfig) -> ArtifactRef:
    """Return the documents; if one shard does not hold them, stages take them by shards.

    A dry run that does not know the shards goes on with the whole corpus.
    """
    if not is_pending(documents):
        with skip_unknown_results():
            return set_parts(documents, shards_of_corpus(documents, corpus))
    return documents


def shards_of_corpus(documents: ArtifactRef, corpus: CorpusConfig) -> list[ArtifactRef]:
    """Return the shards of a corpus; none if one holds it."""
    from sentemb_core.corpus import split

    size = split.corpus_size(artifact_path(documents) / "documents.parquet")
    full = corpus.shard_sentences
    if size <= (full or split.SHARD_SENTENCES):
        return []
    if full is None:
        place = Path(corpus.source)
        source = str(place.resolve()) if place.exists() else corpus.source
        first = shard_size(documents, corpus.model_copy(update={"source": source}))
        full = split.shard_size(size, split.MOST, first)
    return split_documents(documents, full).shards


@stage("join_shards", version=1)
def join_shards(parts: list[ArtifactRef]) -> ArtifactRef:
    """Return the join of results of a stage on each shard; it holds their names alone."""
    from sentemb_core.store.parts import write_parts

    with new_artifact(parts[0].kind) as draft:
        write_parts(parts, draft.path)
    return draft.ref


def joined(parts: list[ArtifactRef], call: Mapping[str, object]) -> ArtifactRef:
    """`join_shards` for any stage, whatever the arguments of its call."""
    return join_shards(parts)


@stage("join_sentences", version=1)
def join_sentences(parts: list[ArtifactRef], validation_pool: ArtifactRef | None) -> ArtifactRef:
    """Return the join of the tokens of each shard, with the documents that the pool holds out."""
    from sentemb_core.corpus.tokenise import join_tokens
    from sentemb_core.store.parts import write_parts

    with new_artifact("sentences") as draft:
        pool = artifact_path(validation_pool) if validation_pool else None
        join_tokens([artifact_path(part) for part in parts], pool, draft.path)
        write_parts(parts, draft.path)
    return draft.ref


@stage("read_corpus", version=2, ignore=("place",), libraries=("syntok", "markdown-it-py"))
def read_corpus(place: str, config: CorpusConfig) -> ArtifactRef:
    """Return the usable documents as lists of sentences, with the quarantine and the counts.

    `config.source` is the SHA-256 of the corpus's bytes; `place` is where they are.
    """
    from sentemb_core.corpus.documents import write_documents

    read = working_folder()  # stays if the corpus is refused: its quarantine has the reasons
    with silent("sentemb_core.corpus.columns"):  # `check_corpus` has logged them
        write_documents(config.model_copy(update={"source": place}), read)
    require_unchanged(place, config)
    with new_artifact("documents") as draft:
        for file in sorted(read.iterdir()):
            file.rename(draft.path / file.name)
    for line in refused_rows(draft.ref):
        log.warning("%s", line)
    return draft.ref


def refused_rows(documents: ArtifactRef) -> list[str]:
    """A line with the number of refused rows and the file with the reasons; empty without any."""
    report = corpus_report(documents)
    if not report.quarantined:
        return []
    return [report.refused_summary(artifact_path(documents) / "quarantine.parquet")]


def corpus_report(documents: ArtifactRef) -> "CorpusReport":
    """The counts of rows read, kept and refused."""
    from sentemb_core.corpus.documents import CorpusReport

    return CorpusReport.model_validate(read_json(documents, "report"))


def require_multi_sentence(documents: ArtifactRef, methods: Iterable[MethodSettings]) -> None:
    """Refuse (E102) documents of one sentence if a method pairs two of them.

    This comes before the pool is drawn: its error would ask for counterparts, which do not help.
    A dry run does not check.
    """
    if is_pending(documents):
        return
    report = corpus_report(documents)
    for method in methods:
        if method.pairs_sentences and not _keeps_query(method):
            report.require_pairs(f"{method.name} ({method.summary})")


def _keeps_query(method: MethodSettings) -> bool:
    """Whether the method is inverse cloze, and its context always includes the sentence."""
    return isinstance(method, ICT) and method.removal == 0


def document_count(documents: ArtifactRef) -> int:
    """Number of usable documents."""
    import pyarrow.parquet as pq

    return pq.read_metadata(artifact_path(documents) / "documents.parquet").num_rows


@stage("draw_validation_pool", version="2")
def draw_validation_pool(documents: ArtifactRef, config: ValidationConfig) -> ArtifactRef:
    """Return the fixed pool of candidates and the three fixed splits of its queries."""
    from sentemb_core.corpus.validation_pool import write_validation_pool

    with new_artifact("validation_pool") as draft:
        write_validation_pool(artifact_path(documents) / "documents.parquet", config, draft.path)
    return draft.ref


@stage(
    "tokenise_sentences",
    version="3",
    by_shard=("documents",),
    own=lambda call, shards: [{"validation_pool": None}] * shards,
    join=lambda parts, call: join_sentences(parts, call["validation_pool"]),
)
def tokenise_sentences(
    documents: ArtifactRef,
    validation_pool: ArtifactRef | None,
    encoder: ArtifactRef,
    counterparts: bool = False,
) -> ArtifactRef:
    """Return the tokens that every round reuses; without a pool, no document is held out.

    With `counterparts`, the last sentence of a document is its counterpart (`draw_labels`).
    """
    from sentemb_core.corpus.tokenise import write_tokens
    from sentemb_core.encoder.checkpoint import loaded_encoder

    model = loaded_encoder(artifact_path(encoder))
    with new_artifact("sentences") as draft:
        write_tokens(
            artifact_path(documents) / "documents.parquet",
            artifact_path(validation_pool) if validation_pool else None,
            artifact_path(encoder) / "tokenizer.json",
            model.max_length,
            draft.path,
            add_special_tokens=model.add_special_tokens,
            unknown=model.unknown_id,
            prompt=model.prompts.before("sentence"),
            counterpart=(model.prompts.before("query"), model.text_length)
            if counterparts
            else None,
        )
    return draft.ref


@stage("read_labels", version=6, ignore=("corpus_place", "place"))
def read_labels(
    documents: ArtifactRef,
    corpus_place: str,
    corpus: CorpusConfig,
    place: str,
    config: LabelsConfig,
) -> ArtifactRef:
    """Return the documents with the counterparts of a file of labels.

    Each `source` is the SHA-256 of the bytes; `corpus_place` and `place` are where they are.
    """
    from sentemb_core.corpus.labels import REJECTED, write_with_labels

    with new_artifact("documents") as draft:
        read = corpus.model_copy(update={"source": corpus_place})
        named = config.model_copy(update={"source": place})
        with silent("sentemb_core.corpus.columns"):  # logged when the corpus was read
            refused = write_with_labels(artifact_path(documents), read, named, draft.path)
        require_unchanged(corpus_place, corpus)
        require_unchanged(place, config)
    if refused:
        log.warning("labels refused, with their reasons: %s", artifact_path(draft.ref) / REJECTED)
    return draft.ref


def require_label_pairs(
    documents: ArtifactRef, validation_pool: ArtifactRef, config: RunConfig
) -> None:
    """Refuse labels without any negatives (E102) before a training. A dry run does not check."""
    from sentemb_core.corpus.labels import drawn_labels

    if learns_from_labels(config) and not is_pending(validation_pool):
        share, count = config.validation.label_share, config.labels.count
        drawn_labels(artifact_path(documents), artifact_path(validation_pool), share, count)


@stage("draw_labels", version=2)
def draw_labels(
    documents: ArtifactRef, validation_pool: ArtifactRef, share: float, count: int | None
) -> Labelled:
    """Return the labels to train on, the first by hash; none of them is in the validation pool."""
    from sentemb_core.corpus.labels import write_labelled

    with new_artifact("documents") as draft:
        report = write_labelled(
            artifact_path(documents), artifact_path(validation_pool), share, count, draft.path
        )
    return Labelled(documents=draft.ref, count=report.labels)
