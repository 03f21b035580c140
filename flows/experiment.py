"""A paper's experiment: every arm trained under every seed, judged column by column."""

import logging
from collections.abc import Iterator
from pathlib import Path

from prefect import flow

from flows.experiments.index import Reproduction, folder_of, task_of
from flows.fine_tune import by_epochs
from flows.method_table import Corpus
from flows.presets import labelled_preset
from flows.reproduce import annotation_of
from flows.steps import documents_of, encoder_from
from flows.subflow import sub_flow
from sentemb_core.configs import AnnotationConfig, EncoderConfig, LabelsConfig, TrainingConfig
from sentemb_core.errors import SentembError
from sentemb_core.experiments import (
    OF_TRAINING,
    TITLE,
    Arm,
    Column,
    Finish,
    Label,
    SelfTrain,
    Step,
    Train,
)
from sentemb_core.method_settings import Condenser
from sentemb_core.suite import ProbeTask, RetrievalTask, StsTask
from sentemb_core.types import ArtifactRef
from tasks.annotate import cluster_by_kmeans, export_pairs
from tasks.benchmark import (
    Fixed,
    placed,
    score_fixed,
    score_retrieval,
    score_similarity,
    score_transfer,
)
from tasks.corpus import draw_benchmark, tokenise_sentences
from tasks.encode import encode_sentences, finished_encoder, pooled_as, start_encoder, word_vectors
from tasks.findings import Finding
from tasks.following import recorded
from tasks.labels import draw_labels
from tasks.rows import Annotation, Value
from tasks.train import train_encoder
from tasks.validate import bm25_scores, random_scores, rescored_scores, validate_encoder

log = logging.getLogger("sentemb_core.run")

EPOCHS = LabelsConfig(epochs=10, patience=3)
"""Of fine-tuning (seed 000, appendix C: patience 3)."""

System = ArtifactRef | Fixed
"""An encoder, or a row that no encoder is needed for."""


class Ground(Value):
    """A corpus as arms read it; those with counterparts can judge."""

    documents: ArtifactRef
    sentences: ArtifactRef
    benchmark: ArtifactRef | None


class Made(Value):
    """An encoder on its way, and the head that a Condenser stage left for the next training."""

    encoder: ArtifactRef
    head: ArtifactRef | None = None


@flow(name="reproduce", flow_run_name="{asked.experiment}")
def experiment(asked: Reproduction) -> list[Finding]:
    """Every cell of an experiment; a second run computes only what is missing."""
    with recorded(asked.experiment, asked.model_dump(mode="json")) as record:
        made: list[Finding] = []
        base = base_of(asked)
        known = len(record.used)
        for found in arms_found(asked, base):
            fresh, known = record.used[known:], len(record.used)
            trainings = [used for used in fresh if used.stage == "train_encoder"]
            logs = [ref for one in trainings for ref in one.outputs if ref.kind == "training_log"]
            told = {
                "seconds": sum(used.seconds for used in trainings),
                "log": logs[-1] if logs else None,
            }
            made += [one.model_copy(update=told) for one in found]
            log.info("%s, seed %d: %s", found[0].arm, found[0].seed, found[0].error or "done")
    return made


def arms_found(asked: Reproduction, base: Made) -> Iterator[list[Finding]]:
    """Seed by seed: a run that is stopped leaves whole tables of the first seeds."""
    for seed in asked.budget.seeds:
        for arm in asked.what.arms:
            for corpus, columns in asked.what.groups(arm):
                if judging := [one for one in columns if knows(arm, one)]:
                    label = f"{arm.label} on {corpus}, seed {seed}"
                    yield tried(label, asked, base, arm, corpus, judging, seed)


def knows(arm: Arm, column: Column) -> bool:
    """Whether the arm can have a number there: what no encoder made only retrieves."""
    if arm.alpha is not None:
        return column.judge == TITLE
    if column.judge in OF_TRAINING:
        return any(not isinstance(step, Finish) for step in arm.steps)
    if arm.system in ("BM25", "random"):
        return column.judge == TITLE or isinstance(task_of(column), RetrievalTask)
    return True


def tried(
    label: str,
    asked: Reproduction,
    base: Made,
    arm: Arm,
    corpus: Corpus,
    columns: list[Column],
    seed: int,
) -> list[Finding]:
    """The arm's findings; one that is refused or fails says why, and the others go on."""
    try:
        return arm_found(label, asked, base, arm, corpus, columns, seed)
    except SentembError as refused:
        error = str(refused)
    except Exception as failure:
        log.exception("%s failed", label)
        error = f"{SentembError.code} {type(failure).__name__}: {failure}"
    return [Finding(arm=arm.label, column=one.label, seed=seed, error=error) for one in columns]


@sub_flow(name="arm", flow_run_name="{label}")
def arm_found(
    label: str,
    asked: Reproduction,
    base: Made,
    arm: Arm,
    corpus: Corpus,
    columns: list[Column],
    seed: int,
) -> list[Finding]:
    """Train step by step, then judge."""
    system = system_of(asked, base, arm, corpus, seed)
    judges = [
        None if column.judge in OF_TRAINING else judged(asked, base, arm, system, column, seed)
        for column in columns
    ]
    return [
        Finding(arm=arm.label, column=column.label, seed=seed, result=result)
        for column, result in zip(columns, judges, strict=True)
    ]


def system_of(asked: Reproduction, base: Made, arm: Arm, corpus: Corpus, seed: int) -> System:
    """Who is judged: what the arm's steps make of the base, or a row that nothing moves."""
    match arm.system:
        case "encoder":
            return learnt(asked, base, arm, corpus, seed)
        case "minilm":
            return minilm()
        case "word vectors":
            return word_vectors(documents_of(asked.corpus(corpus, arm.max_documents)), seed)
        case fixed:
            return fixed


def minilm() -> ArtifactRef:
    """A supervised encoder (seed 000's SBERT), as it is."""
    return start_encoder(EncoderConfig(name="minilm"), "", None)


def base_of(asked: Reproduction) -> Made:
    """The encoder that every arm of every seed starts from, as the papers start from one BERT."""
    budget = asked.budget
    documents = documents_of(asked.corpus(budget.base.corpus))
    encoder = encoder_from(budget.base.encoder, documents)
    if not budget.base.times:
        return Made(encoder=encoder)
    training = asked.training(Condenser(), budget.base.encoder.seed, budget.base.times).model_copy(
        update={"learning_rate": budget.base.learning_rate}
    )
    made = train_encoder(encoder, tokenise_sentences(documents, None, encoder), training)
    return Made(encoder=made.model, head=made.head)


def ground_of(asked: Reproduction, base: Made, corpus: Corpus, arm: Arm | None = None) -> Ground:
    """Documents, tokens, and the pool of a corpus whose documents have counterparts.

    What an arm trains on may be a part of it.
    """
    config = asked.corpus(corpus)
    if arm:
        config = asked.corpus(corpus, arm.max_documents, distinct=arm.distinct)
    documents = documents_of(config)
    benchmark = draw_benchmark(documents, asked.pool) if config.counterpart_column else None
    sentences = tokenise_sentences(documents, benchmark, base.encoder)
    return Ground(documents=documents, sentences=sentences, benchmark=benchmark)


def learnt(asked: Reproduction, base: Made, arm: Arm, corpus: Corpus, seed: int) -> ArtifactRef:
    """The arm's encoder: what its steps make of the base."""
    encoder = pooled_as(base.encoder, arm.pooling) if arm.pooling else base.encoder
    made = Made(encoder=encoder, head=base.head)
    ground = ground_of(asked, base, corpus, arm)
    for step in arm.steps:
        made = taken(step, made, ground, asked, seed)
    return made.encoder


def taken(step: Step, before: Made, ground: Ground, asked: Reproduction, seed: int) -> Made:
    """The encoder after one step."""
    match step:
        case Train():
            training = asked.training(step.method, seed, step.times, step.batch_size)
            made = train_encoder(before.encoder, ground.sentences, training, head=before.head)
            return Made(encoder=made.model, head=made.head)
        case SelfTrain():
            found = annotated(step, before.encoder, ground)
            training = asked.round_training(step, seed)
            made = train_encoder(
                before.encoder,
                ground.sentences,
                training,
                clusters=found.clusters,
                pairs=found.pairs,
            )
            return Made(encoder=made.model)
        case Label():
            return Made(encoder=fine_tuned(step, before.encoder, ground, asked, seed))
        case Finish():
            return Made(encoder=finished_encoder(before.encoder, ground.sentences, step.map, seed))


def annotated(step: SelfTrain, student: ArtifactRef, ground: Ground) -> Annotation:
    """What the annotator finds, by the partition of its graph or by k-means."""
    annotator, sentences = student, ground.sentences
    if step.annotator == "minilm":
        annotator = minilm()
        sentences = tokenise_sentences(ground.documents, ground.benchmark, annotator)
    config = step.annotation
    if config.clustering == "kmeans":
        return by_kmeans(annotator, sentences, config)
    return annotation_of(annotator, sentences, config)


def by_kmeans(
    annotator: ArtifactRef, sentences: ArtifactRef, config: AnnotationConfig
) -> Annotation:
    """The ablation of seed 000, Table 3."""
    vectors = encode_sentences(annotator, sentences, config.dtype, config.storage)
    clusters = cluster_by_kmeans(annotator, vectors, sentences, config.n_clusters, config.seed)
    pairs = export_pairs(clusters, sentences, config.max_partners, config.seed)
    return Annotation(clusters=clusters, pairs=pairs)


def fine_tuned(
    step: Label, encoder: ArtifactRef, ground: Ground, asked: Reproduction, seed: int
) -> ArtifactRef:
    """The encoder of the best epoch on the labels outside the pool."""
    assert ground.benchmark is not None, "labels are counterparts"
    share = asked.pool.label_share
    labels = draw_labels(ground.documents, ground.benchmark, share, step.count)
    preset = labelled_preset(asked.budget.base.encoder.name, "training")["training"]
    tuning = TrainingConfig.model_validate(
        preset | {"seed": seed, "dtype": asked.budget.dtype, "threads": asked.budget.threads}
    )
    return train_encoder(
        encoder,
        tokenise_sentences(labels.documents, None, encoder),
        by_epochs(tuning, labels.count, EPOCHS),
        benchmark=ground.benchmark,
        judged=ground.sentences,
    ).model


def judged(
    asked: Reproduction, base: Made, arm: Arm, system: System, column: Column, seed: int
) -> ArtifactRef:
    """What the judge of a column says."""
    if column.judge != TITLE:
        return on_task(asked, system, column)
    ground = ground_of(asked, base, column.corpus)
    assert ground.benchmark is not None, "titles are counterparts"
    if system == "BM25":
        return bm25_scores(ground.documents, ground.benchmark)
    if not isinstance(system, ArtifactRef):
        return random_scores(ground.sentences, ground.benchmark, seed)
    sentences = ground.sentences
    if arm.system != "encoder":  # another vocabulary
        sentences = tokenise_sentences(ground.documents, ground.benchmark, system)
    if arm.alpha is not None:
        alpha = None if arm.alpha == "chosen" else arm.alpha
        return rescored_scores(system, sentences, ground.documents, ground.benchmark, alpha)
    return validate_encoder(system, sentences, ground.benchmark)


def on_task(asked: Reproduction, system: System, column: Column) -> ArtifactRef:
    """A task of the evaluation suite."""
    place = placed(task_of(column), Path(asked.data, folder_of(column)))
    task, digests, folder = place.task, place.digests, place.folder
    if not isinstance(system, ArtifactRef):
        assert isinstance(task, RetrievalTask), "fixed rows only retrieve"
        return score_fixed(system, task, digests, folder)
    match task:
        case RetrievalTask():
            return score_retrieval(system, task, "text", digests, folder)
        case StsTask():
            return score_similarity(system, task, digests, folder)
        case ProbeTask():
            return score_transfer(system, task, digests, folder)
