"""InfoCSE with intra-document clustering (seed 000): annotate, train, validate, in rounds."""

from collections.abc import Callable

from prefect import flow

from flows.subflow import sub_flow
from sentemb_core.configs import (
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    InfoCSEIDC,
    RoundsConfig,
    RunConfig,
    TrainingConfig,
)
from sentemb_core.method_settings import CONPONO, InfoCSEIDCPairs
from sentemb_core.stopping import Verdict, verdict
from sentemb_core.types import ArtifactRef
from tasks.annotate import (
    build_graph,
    cluster_by_kmeans,
    cluster_sentences,
    encode_and_build_graph,
    export_pairs,
    prune_graph,
)
from tasks.corpus import draw_benchmark, read_corpus, tokenise_sentences
from tasks.encode import encode_sentences, start_encoder
from tasks.following import followed
from tasks.publish import Outcome, published
from tasks.rows import Annotation, Row, SelfTraining, Texts
from tasks.sources import digest_of_corpus, digest_of_encoder
from tasks.train import train_encoder
from tasks.validate import (
    bm25_scores,
    diagnose_round,
    random_scores,
    recall_at_5,
    validate_encoder,
)

Watch = Callable[[Row], None]


@flow(name="infocse-idc", flow_run_name="{config.name}")
def infocse_idc(config: InfoCSEIDC) -> Outcome:
    """Documents in, a better encoder out: reported, registered, promoted if the gate agrees.

    Args:
        config: The whole run; every setting brings its source.
    """
    with followed(config) as run:
        return published(self_train(config, run), run)


def self_train(config: InfoCSEIDC, watch: Watch) -> SelfTraining:
    """Annotate with the current encoder, train on what it found, stop when R@5 stops growing."""
    texts, start = prepared(config)
    bm25 = bm25_scores(texts.documents, texts.benchmark)
    random = random_scores(texts.sentences, texts.benchmark, config.encoder.seed)

    rows = [validated("start", start, texts, config.annotation)]
    watch(rows[0])
    if config.initialiser:
        rows.append(initialised(rows[0], texts, config))
        watch(rows[-1])

    base = len(rows) - 1
    annotator = first_annotator(config, texts) or rows[base]
    while judged(rows[base:], config.rounds).go_on:
        label = f"round {len(rows) - base}"
        rows.append(training_round(label, rows[-1], annotator, texts, config))
        annotator = rows[-1]
        watch(rows[-1])
    best = base + judged(rows[base:], config.rounds).best

    controls: list[Row] = []
    for round_ in range(1, len(rows) - base) if config.control else ():
        controls.append(control(round_, controls[-1] if controls else rows[base], texts, config))
        watch(controls[-1])
    return SelfTraining(
        texts=texts, rows=rows, controls=controls, bm25=bm25, random=random, best=best
    )


def judged(rows: list[Row], rule: RoundsConfig) -> Verdict:
    """Whether validation still grows, and which row is the best so far."""
    return verdict(
        [recall_at_5(row.scores) for row in rows],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_rounds,
    )


def prepared(config: RunConfig) -> tuple[Texts, ArtifactRef]:
    """The corpus as sentences and tokens, its benchmark, and the start encoder."""
    documents = documents_of(config.corpus)
    benchmark = draw_benchmark(documents, config.validation)
    start = encoder_from(config.encoder, documents)
    sentences = tokenise_sentences(documents, benchmark, start)
    return Texts(documents=documents, benchmark=benchmark, sentences=sentences), start


def documents_of(corpus: CorpusConfig) -> ArtifactRef:
    """The usable documents of a source, which its bytes name."""
    named = corpus.model_copy(update={"source": digest_of_corpus(corpus)})
    return read_corpus(corpus.source, named)


def encoder_from(config: EncoderConfig, documents: ArtifactRef) -> ArtifactRef:
    """A given encoder, or one from random weights that learns its vocabulary from the corpus."""
    learns = config.name in ("static", "transformer")
    return start_encoder(config, digest_of_encoder(config), documents if learns else None)


@sub_flow(name="round", flow_run_name="{label}")
def training_round(
    label: str, student: Row, annotator: Row, texts: Texts, config: InfoCSEIDC
) -> Row:
    """One round of Algorithm 1: what the annotator finds, the student learns."""
    found = annotate(annotator, texts, config.annotation)
    trained = train_encoder(
        student.encoder,
        texts.sentences,
        config.training,
        clusters=found.clusters,
        pairs=found.pairs,
        benchmark=texts.benchmark if config.training.evaluate_every else None,
    )
    row = validated(label, trained.model, texts, config.annotation)
    diagnostics = diagnose_round(
        texts.sentences,
        found.clusters,
        found.pairs,
        annotator.embeddings,
        row.embeddings,
        annotator.annotation.clusters if annotator.annotation else None,
        config.annotation.seed,
    )
    return row.model_copy(
        update={"log": trained.log, "annotation": found, "diagnostics": diagnostics}
    )


def annotate(annotator: Row, texts: Texts, config: AnnotationConfig) -> Annotation:
    """Encode -> intra-document graph -> top-K prune -> connected components -> pairs."""
    if config.clustering == "kmeans":
        assert annotator.embeddings is not None, (
            "k-means keeps its embeddings (checked by the config)"
        )
        clusters = cluster_by_kmeans(
            annotator.encoder,
            annotator.embeddings,
            texts.sentences,
            config.n_clusters,
            config.seed,
        )
    else:
        graph = (
            build_graph(annotator.embeddings, texts.sentences, config.degree)
            if annotator.embeddings
            else encode_and_build_graph(
                annotator.encoder, annotator.sentences, config.degree, config.dtype, config.storage
            )
        )
        clusters = cluster_sentences(
            prune_graph(graph, config.top_k, config.mutual), texts.sentences
        )
    pairs = export_pairs(clusters, texts.sentences, config.max_partners, config.seed)
    return Annotation(clusters=clusters, pairs=pairs)


def validated(label: str, encoder: ArtifactRef, texts: Texts, config: AnnotationConfig) -> Row:
    """An encoder's row; its sentence vectors serve validation now and the next annotation."""
    embeddings = (
        encode_sentences(encoder, texts.sentences, config.dtype, config.storage)
        if config.keep_embeddings
        else None
    )
    scores = validate_encoder(encoder, texts.sentences, texts.benchmark, embeddings)
    return Row(
        label=label,
        encoder=encoder,
        sentences=texts.sentences,
        scores=scores,
        embeddings=embeddings,
    )


def initialised(start: Row, texts: Texts, config: RunConfig) -> Row:
    """The encoder that annotates first: seed 000 takes CONPONO."""
    assert config.initialiser is not None
    return trained_without_annotation(
        f"after {config.initialiser.method.name}", start, config.initialiser, texts, config
    )


def control(round_: int, before: Row, texts: Texts, config: InfoCSEIDC) -> Row:
    """The same number of steps on plain neighbours: what more training alone is worth."""
    rounds = config.training.method
    by_cluster = isinstance(rounds, InfoCSEIDCPairs) and rounds.batches == "cluster"
    training = config.training.model_copy(
        update={
            "method": CONPONO(temperature=rounds.temperature),
            "batch_size": config.training.batch_size // (2 if by_cluster else 1),
        }
    )
    return trained_without_annotation(
        f"control {round_}: neighbours only", before, training, texts, config
    )


@sub_flow(name="training", flow_run_name="{label}")
def trained_without_annotation(
    label: str, before: Row, training: TrainingConfig, texts: Texts, config: RunConfig
) -> Row:
    trained = train_encoder(
        before.encoder,
        texts.sentences,
        training,
        benchmark=texts.benchmark if training.evaluate_every else None,
        head=before.head,
    )
    row = validated(label, trained.model, texts, config.annotation)
    return row.model_copy(update={"log": trained.log, "head": trained.head})


def first_annotator(config: InfoCSEIDC, texts: Texts) -> Row | None:
    """Round 1's own annotator with its own tokens, if the config names one (erratum E12)."""
    if config.annotator is None:
        return None
    encoder = encoder_from(config.annotator, texts.documents)
    sentences = tokenise_sentences(texts.documents, texts.benchmark, encoder)
    own = texts.model_copy(update={"sentences": sentences})
    return validated("annotator of round 1", encoder, own, config.annotation)
