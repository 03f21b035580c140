"""What all runs share: the order from documents to a published model, and its single steps.

`run_pipeline` is the whole order: the loop of the method, a map for the best encoder, the retriever
of its encoders (`flows/retriever.py`), and then `tasks/publish.py`, which publishes and registers
it. `tasks/gate.py` decides its promotion.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from flows.defaults import completed
from flows.retriever import add_retriever
from sentemb_core.config.run import (
    RANDOM_ENCODERS,
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    InfoCSEIDC,
    InfoCSEPlus,
    LabelsConfig,
    MethodRun,
    RoundsConfig,
    RunConfig,
    TrainingConfig,
)
from sentemb_core.formats import in_words
from sentemb_core.stopping import StoppingDecision, stopping_decision
from sentemb_core.types import ArtifactRef, Map
from tasks.annotate import require_comparable_sentences
from tasks.artifacts import EncoderResult, RowKind, RunResult, Texts
from tasks.checks import trainings
from tasks.corpus import (
    draw_validation_pool,
    in_shards,
    read_corpus,
    read_labels,
    require_label_pairs,
    require_multi_sentence,
    tokenise_sentences,
)
from tasks.encode import encode_sentences, finished_encoder, start_encoder
from tasks.execution import flow
from tasks.publish import finish_run
from tasks.registered_encoders import local_name
from tasks.report import Outcome
from tasks.run_monitor import monitored_run
from tasks.run_table import RETRIEVER
from tasks.sources import by_bytes, digest_of_corpus, revision_of
from tasks.train import check_documents, log_segment_counts, train_encoder
from tasks.validate import (
    bm25_scores,
    check_validation_pool,
    falls_below,
    random_scores,
    recall_at_5,
    validate_encoder,
)
from tasks.workers import workers_of

C = TypeVar("C", bound=RunConfig)

OnRow = Callable[[EncoderResult], None]
"""Called with every encoder of a run as soon as it is validated."""


def run_pipeline(config: C, loop: Callable[[C, OnRow], RunResult]) -> Outcome:
    """Run a method's loop as a recorded and tracked run, and publish its best encoder."""
    config = completed(config)
    with workers_of(config), monitored_run(config) as monitor:
        result = loop(config, monitor)
        result = add_mapped_encoders(result, config, monitor)
        result = add_retriever(result, config)
        monitor.add_timings(RETRIEVER)
        return finish_run(result, monitor)


# Before the loop


def prepare_run(config: RunConfig, on_row: OnRow) -> RunResult:
    """Return a run before its own training: texts, fixed rows, and the encoders so far."""
    texts, encoder = texts_and_start(config)
    if config.initialiser and isinstance(config, MethodRun):
        check_documents(config.training, encoder, texts.sentences)
    bm25 = bm25_scores(texts.documents, texts.validation_pool)
    random = random_scores(texts.sentences, texts.validation_pool, config.encoder.seed)

    rows = [validated_encoder("start", "start", encoder, texts, config.annotation)]
    on_row(rows[0])
    if config.initialiser:
        label = f"after {config.initialiser.method.name}"
        rows.append(trained_encoder("trained", label, rows[0], config.initialiser, texts, config))
        on_row(rows[-1])
    return RunResult(
        texts=texts, rows=rows, controls=[], bm25=bm25, random=random, best=len(rows) - 1
    )


def texts_and_start(config: RunConfig) -> tuple[Texts, ArtifactRef]:
    """Return the corpus as sentences and tokens with its validation pool, and the start encoder."""
    documents = documents_of(config.corpus)
    learning = (config.training, *trainings(config))  # the run's own method is named first
    require_multi_sentence(documents, [training.method for training in learning])
    if config.labels.source:
        documents = labelled_documents(documents, config.corpus, config.labels)
    validation_pool = draw_validation_pool(documents, config.validation)
    check_validation_pool(validation_pool, config)
    require_label_pairs(documents, validation_pool, config)
    start = encoder_from(config.encoder, documents)
    sentences = tokenise_sentences(documents, validation_pool, start)
    if compares_sentences(config):
        require_comparable_sentences(sentences)
    return Texts(documents=documents, validation_pool=validation_pool, sentences=sentences), start


def compares_sentences(config: RunConfig) -> bool:
    """Whether a run builds a graph of each document: in its rounds, or for its corpus table."""
    in_rounds = isinstance(config, InfoCSEIDC) and config.annotation.clustering == "partition"
    return in_rounds or config.returns == "retriever"


def documents_of(corpus: CorpusConfig) -> ArtifactRef:
    """Return the usable documents of a source, cached by the bytes of the source."""
    read = read_corpus.with_options(retries=retries_of(corpus))
    return in_shards(read(corpus.source, by_digest(corpus)), corpus)


def labelled_documents(
    documents: ArtifactRef, corpus: CorpusConfig, labels: LabelsConfig
) -> ArtifactRef:
    """Return the documents with the counterparts of a file of labels."""
    assert labels.source is not None, "a file of labels is named"
    read = read_labels.with_options(retries=retries_of(corpus))
    labelled = read(
        documents, corpus.source, by_digest(corpus), labels.source, labels_by_digest(labels)
    )
    return in_shards(labelled, corpus)


def retries_of(corpus: CorpusConfig) -> int:
    """A streamed corpus is read twice if the network breaks; a local one is not."""
    return int(not Path(corpus.source).exists())


def by_digest(corpus: CorpusConfig) -> CorpusConfig:
    """The corpus under the digest of its bytes; the size of its shards does not change them."""
    return corpus.model_copy(update={"source": digest_of_corpus(corpus), "shard_sentences": None})


def labels_by_digest(labels: LabelsConfig) -> LabelsConfig:
    """The settings that reading the labels needs, under the digest of the file's bytes."""
    assert labels.source is not None, "a file of labels is named"
    return LabelsConfig(
        source=digest_of_corpus(CorpusConfig(source=labels.source, encoding=labels.encoding)),
        id_column=labels.id_column,
        counterpart_column=labels.counterpart_column,
        encoding=labels.encoding,
    )


def encoder_from(config: EncoderConfig, documents: ArtifactRef | None) -> ArtifactRef:
    """Return a given encoder, or one of random weights whose vocabulary comes from the corpus."""
    texts = documents if config.name in RANDOM_ENCODERS else None
    place = local_name(config.name)
    return start_encoder(place, by_bytes(config, place), texts, revision_of(place))


# Steps of a loop


def validated_encoder(
    kind: RowKind, label: str, encoder: ArtifactRef, texts: Texts, idc: AnnotationConfig
) -> EncoderResult:
    """Encode the corpus and validate the encoder; the next annotation uses the same vectors."""
    embeddings = None
    if idc.keep_embeddings:
        embeddings = encode_sentences(encoder, texts.sentences, idc.dtype, idc.storage)
    scores = validate_encoder(encoder, texts.sentences, texts.validation_pool, embeddings)
    return EncoderResult(
        kind=kind,
        label=label,
        encoder=encoder,
        sentences=texts.sentences,
        scores=scores,
        embeddings=embeddings,
    )


@flow(name="training", flow_run_name="{label}")
def trained_encoder(
    kind: RowKind,
    label: str,
    parent: EncoderResult,
    training: TrainingConfig,
    texts: Texts,
    config: RunConfig,
) -> EncoderResult:
    """Train an encoder by a method that needs no annotation, and validate it."""
    log_segment_counts(training.method, texts.sentences, parent.encoder)
    trained = train_encoder(
        parent.encoder,
        texts.sentences,
        training,
        validation_pool=texts.validation_pool if training.evaluate_every else None,
    )
    result = validated_encoder(kind, label, trained.model, texts, config.annotation)
    return result.model_copy(update={"parent": parent.label, "log": trained.log})


def stop_rounds(rows: Sequence[EncoderResult], rule: RoundsConfig) -> StoppingDecision:
    """Decide by R@5 on validation whether another round follows, and which row is the best.

    A first round that falls below its start by more than chance is the last, whatever the patience.
    """
    decision = stopping_decision(
        [recall_at_5(row.scores) for row in rows],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_rounds,
    )
    if decision.go_on and len(rows) == 2 and falls_below(rows[1].scores, rows[0].scores):
        return replace(decision, go_on=False, reason="below its start by more than chance")
    return decision


# After the loop


def add_mapped_encoders(run: RunResult, config: RunConfig, on_row: OnRow) -> RunResult:
    """Add the start and the best encoder with a map (`postprocess`), if the run asks for one.

    The start shows what the map alone adds. Validation chooses the encoder to return; InfoCSE++
    always returns a fine-tuned one, so never the mapped start.
    """
    if config.postprocess is None:
        return run
    chosen = run.rows[run.best]
    bases = {row.label: row for row in (run.rows[0], chosen)}
    mapped: list[EncoderResult] = []
    for base in bases.values():
        label = f"{in_words(config.postprocess)} of {base.label.removeprefix('after ')}"
        mapped.append(mapped_encoder(label, config.postprocess, base, run.texts, config))
        on_row(mapped[-1])
    tuned = isinstance(config, InfoCSEPlus) and chosen.kind == "fine-tuned"
    candidates = [chosen, *(row for row in mapped if not tuned or row.parent == chosen.label)]
    rows = [*run.rows, *mapped]
    best = candidates[stopping_decision([recall_at_5(row.scores) for row in candidates]).best]
    return run.model_copy(update={"rows": rows, "best": rows.index(best)})


@flow(name="map", flow_run_name="{label}")
def mapped_encoder(
    label: str, kind: Map, base: EncoderResult, texts: Texts, config: RunConfig
) -> EncoderResult:
    """Fit a map on the encoder's own vectors of the corpus, and validate the mapped encoder."""
    encoder = finished_encoder(base.encoder, base.sentences, kind, config.training.seed)
    result = validated_encoder("mapped", label, encoder, texts, config.annotation)
    return result.model_copy(update={"parent": base.label})
