"""A whole run: recorded and tracked, with its loop, its maps, and what it publishes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sentemb_core.config.run import (
    RANDOM_ENCODERS,
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
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
from tasks.checks import trainings
from tasks.corpus import (
    check_drawn,
    draw_validation_pool,
    read_corpus,
    read_labels,
    require_multi_sentence,
    tokenise_sentences,
)
from tasks.encode import encode_sentences, finished_encoder, start_encoder
from tasks.execution import sub_flow
from tasks.publish import finish_run
from tasks.registered_encoders import local_name, with_pinned_encoders
from tasks.report import Outcome
from tasks.run_monitor import monitored_run
from tasks.run_result import EncoderResult, RowKind, RunResult, Texts
from tasks.sources import by_bytes, digest_of_corpus, digest_of_labels, revision_of
from tasks.train import check_documents, tell_segmented, train_encoder
from tasks.validate import (
    bm25_scores,
    check_validation_pool,
    random_scores,
    recall_at_5,
    validate_encoder,
)

C = TypeVar("C", bound=RunConfig)

OnRow = Callable[[EncoderResult], None]


def run_pipeline(config: C, loop: Callable[[C, OnRow], RunResult]) -> Outcome:
    """What is left of a run by such a loop."""
    config = with_pinned_encoders(config)
    with monitored_run(config) as run:
        return finish_run(run_with_maps(loop(config, run), config, run), run)


def run_before_training(config: RunConfig, watch: OnRow) -> RunResult:
    """A run before its own training: texts, fixed rows, the start encoder, and the initialised."""
    texts, encoder = texts_and_start(config)
    if config.initialiser and isinstance(config, MethodRun):
        check_documents(config.training, encoder, texts.sentences)
    bm25 = bm25_scores(texts.documents, texts.validation_pool)
    random = random_scores(texts.sentences, texts.validation_pool, config.encoder.seed)

    rows = [validated_row("start", "start", encoder, texts, config.annotation)]
    watch(rows[0])
    if config.initialiser:
        label = f"after {config.initialiser.method.name}"
        rows.append(
            row_after_training("trained", label, rows[0], config.initialiser, texts, config)
        )
        watch(rows[-1])
    return RunResult(
        texts=texts, rows=rows, controls=[], bm25=bm25, random=random, best=len(rows) - 1
    )


def run_with_maps(run: RunResult, config: RunConfig, watch: OnRow) -> RunResult:
    """The run with its start and its best encoder behind a map, too, if it asks for one.

    The start shows what the map alone is worth. Validation decides which is returned; InfoCSE++,
    which always returns a fine-tuned encoder, does not return the start's.
    """
    if config.postprocess is None:
        return run
    chosen = run.rows[run.best]
    bases = {row.label: row for row in (run.rows[0], chosen)}
    mapped: list[EncoderResult] = []
    for base in bases.values():
        label = f"{in_words(config.postprocess)} of {base.label.removeprefix('after ')}"
        mapped.append(mapped_row(label, config.postprocess, base, run.texts, config))
        watch(mapped[-1])
    tuned = isinstance(config, InfoCSEPlus) and chosen.kind == "fine-tuned"
    tried = [chosen, *(row for row in mapped if not tuned or row.before == chosen.label)]
    rows = [*run.rows, *mapped]
    best = tried[stopping_decision([recall_at_5(row.scores) for row in tried]).best]
    return run.model_copy(update={"rows": rows, "best": rows.index(best)})


@sub_flow(name="map", flow_run_name="{label}")
def mapped_row(
    label: str, kind: Map, base: EncoderResult, texts: Texts, config: RunConfig
) -> EncoderResult:
    """The row of an encoder behind a map fitted on its own vectors of the corpus."""
    encoder = finished_encoder(base.encoder, base.sentences, kind, config.training.seed)
    row = validated_row("mapped", label, encoder, texts, config.annotation)
    return row.model_copy(update={"before": base.label})


def verdict_on_rounds(rows: Sequence[EncoderResult], rule: RoundsConfig) -> StoppingDecision:
    """Whether validation still grows, and which row is the best so far."""
    return stopping_decision(
        [recall_at_5(row.scores) for row in rows],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_rounds,
    )


def texts_and_start(config: RunConfig) -> tuple[Texts, ArtifactRef]:
    """The corpus as sentences and tokens, its validation pool, and the start encoder."""
    documents = documents_of(config.corpus)
    learning = (config.training, *trainings(config))  # who was named, first
    require_multi_sentence(documents, [one.method for one in learning])
    if config.labels.source:
        documents = labelled_documents(documents, config.corpus, config.labels)
    validation_pool = draw_validation_pool(documents, config.validation)
    check_validation_pool(validation_pool, config)
    check_drawn(documents, validation_pool, config)
    start = encoder_from(config.encoder, documents)
    sentences = tokenise_sentences(documents, validation_pool, start)
    return Texts(documents=documents, validation_pool=validation_pool, sentences=sentences), start


def documents_of(corpus: CorpusConfig) -> ArtifactRef:
    """The usable documents of a source, which its bytes name."""
    read = read_corpus.with_options(retries=retries_of(corpus))
    return read(corpus.source, by_digest(corpus))


def labelled_documents(
    documents: ArtifactRef, corpus: CorpusConfig, labels: LabelsConfig
) -> ArtifactRef:
    """The documents with the counterparts of a file of labels; the corpus may be read again."""
    read = read_labels.with_options(retries=retries_of(corpus))
    return read(documents, corpus.source, by_digest(corpus), labels.source, as_read(labels))


def retries_of(corpus: CorpusConfig) -> int:
    """A corpus that is streamed is read twice: the network may break and come back."""
    return int(not Path(corpus.source).exists())


def by_digest(corpus: CorpusConfig) -> CorpusConfig:
    """The corpus called by its bytes."""
    return corpus.model_copy(update={"source": digest_of_corpus(corpus)})


def as_read(labels: LabelsConfig) -> LabelsConfig:
    """What of it reading asks: the bytes that its source has, and their columns."""
    return LabelsConfig(
        source=digest_of_labels(labels),
        id_column=labels.id_column,
        counterpart_column=labels.counterpart_column,
        encoding=labels.encoding,
    )


def encoder_from(config: EncoderConfig, documents: ArtifactRef | None) -> ArtifactRef:
    """A given encoder, or one from random weights that learns its vocabulary from the corpus."""
    texts = documents if config.name in RANDOM_ENCODERS else None
    place = local_name(config.name)
    named = by_bytes(config.model_copy(update={"name": place}))
    return start_encoder(place, named, texts, revision_of(place))


def validated_row(
    kind: RowKind, label: str, encoder: ArtifactRef, texts: Texts, config: AnnotationConfig
) -> EncoderResult:
    """An encoder's row; its sentence vectors serve validation now and the next annotation."""
    embeddings = (
        encode_sentences(encoder, texts.sentences, config.dtype, config.storage)
        if config.keep_embeddings
        else None
    )
    scores = validate_encoder(encoder, texts.sentences, texts.validation_pool, embeddings)
    return EncoderResult(
        kind=kind,
        label=label,
        encoder=encoder,
        sentences=texts.sentences,
        scores=scores,
        embeddings=embeddings,
    )


@sub_flow(name="training", flow_run_name="{label}")
def row_after_training(
    kind: RowKind,
    label: str,
    before: EncoderResult,
    training: TrainingConfig,
    texts: Texts,
    config: RunConfig,
) -> EncoderResult:
    """The row of what a method that needs no annotation makes of the encoder before it."""
    tell_segmented(training.method, texts.sentences, before.encoder)
    made = train_encoder(
        before.encoder,
        texts.sentences,
        training,
        validation_pool=texts.validation_pool if training.evaluate_every else None,
    )
    row = validated_row(kind, label, made.model, texts, config.annotation)
    return row.model_copy(update={"before": before.label, "log": made.log})
