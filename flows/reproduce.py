"""Reproduce a table: train every arm under every seed, and evaluate it in every column.

    reproduce            seed by seed all trials, then contamination, then the table
    run_trial            one arm on one corpus under one seed
    trained_system       the encoder after the arm's steps, or a system without a training
    encoder_after        the steps, one after the other
    evaluated            the result of the system in one column

A second run computes only what is missing.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from flows.annotation_variants import annotate
from flows.experiments.parts import has_counterparts
from flows.experiments.settings import Reproduction, folder_of, task_of
from flows.fine_tune import train_on_labels
from flows.pipeline import documents_of, encoder_from
from flows.scoring import overlap_with, reads_vectors, result_on
from sentemb_core.config.experiments import (
    CASE,
    OF_TRAINING,
    TITLE,
    WITHOUT_FILES,
    Arm,
    Column,
    Corpus,
    Finish,
    Label,
    SelfTrain,
    Step,
    Train,
)
from sentemb_core.config.methods import Condenser
from sentemb_core.config.run import CorpusConfig, EncoderConfig
from sentemb_core.config.suite import chosen
from sentemb_core.errors import RecipeError
from sentemb_core.formats import counted
from sentemb_core.stopping import stopping_decision
from sentemb_core.types import ArtifactRef, Value
from tasks.artifacts import Annotation, Labelled
from tasks.benchmark import largest_overlaps, placed, pool_reports, score_case
from tasks.checks import begins_with_head, folder_with_head
from tasks.claims import ArmResult, cells_of, claim_result
from tasks.corpus import (
    document_count,
    draw_labels,
    draw_validation_pool,
    require_multi_sentence,
    tokenise_sentences,
)
from tasks.encode import finished_encoder, pooled_as, word_vectors
from tasks.execution import flow, is_dry_run, isolate_errors, skip_unknown_results
from tasks.experiment_table import ExperimentTable
from tasks.results import grouped
from tasks.retriever_systems import System
from tasks.run_monitor import recorded
from tasks.train import log_segment_counts, train_encoder
from tasks.validate import (
    bm25_scores,
    language_of,
    literal_bm25_scores,
    measure_language,
    random_scores,
    recall_at_5,
    rescored_scores,
    validate_encoder,
)

log = logging.getLogger("sentemb_core.run")

MINILM = EncoderConfig(name="minilm")
"""A supervised encoder, without further training."""

TRAINING = {
    "train_encoder",
    "encode_sentences",
    "build_graph",
    "encode_and_build_graph",
    "prune_graph",
    "estimate_relatedness",
    "add_related",
    "cluster_sentences",
    "cluster_by_kmeans",
    "export_pairs",
}
"""Stages whose seconds are the cost of a training, annotation included."""


class Trial(Value):
    """One arm on one corpus under one seed, and the columns that this training serves.

    Attributes:
        base: The start encoder that all arms share; None: each arm has its own.
    """

    settings: Reproduction
    arm: Arm
    corpus: Corpus
    columns: list[Column]
    seed: int
    base: ArtifactRef | None

    @property
    def label(self) -> str:
        return f"{self.arm.label} on {self.corpus}, seed {self.seed}"


class Texts(Value):
    """A corpus in an encoder's tokens; documents with counterparts give a validation pool."""

    documents: ArtifactRef
    sentences: ArtifactRef
    pool: ArtifactRef | None


@flow(name="reproduce", flow_run_name="{settings.experiment}")
def reproduce(settings: Reproduction) -> ExperimentTable:
    """Return the results of all trials, the contamination of the evaluation, and the claims."""
    with recorded(settings.experiment, settings.model_dump(mode="json")) as record:
        results: list[ArmResult] = []
        base = shared_base(settings)  # before the trials, which are not charged for it
        for of_trial, used in record.with_uses(all_results(settings, base)):
            trainings = [one for one in used if one.stage == "train_encoder"]
            logs = [ref for one in trainings for ref in one.outputs if ref.kind == "training_log"]
            seconds = sum(one.seconds for one in used if one.stage in TRAINING)
            cost = {"seconds": seconds, "log": logs[-1] if logs else None}
            results += [one.model_copy(update=cost) for one in of_trial]
            first = of_trial[0]
            log.info("%s, seed %d: %s", first.arm, first.seed, first.error or "done")
        overlaps = overlaps_with(settings)
        return ExperimentTable(
            what=settings.what,
            budget=settings.budget,
            results=results,
            settings=settings.model_dump(mode="json"),
            left_out=settings.left_out,
            overlaps=largest_overlaps([overlap for overlap, _ in overlaps.values() if overlap]),
            pools=pool_reports(pools_of(settings)),
            unmeasured={corpus: error for corpus, (_, error) in overlaps.items() if error},
        )


def plan_reproduction(settings: Reproduction) -> None:
    """Visit the stages of `reproduce` in a dry run; claims only if all their results exist."""
    base = shared_base(settings)
    results = [one for of_trial in all_results(settings, base) for one in of_trial]
    overlaps_with(settings)
    pools_of(settings)
    scored = {one.label for one in settings.what.scored}
    missing = {one.arm for one in results if one.column in scored and not (one.result or one.error)}
    for claim in settings.what.claims:
        if missing.isdisjoint({claim.better, *claim.than}):
            with skip_unknown_results():
                cells = cells_of([one for one in results if one.result])
                claim_result(claim, settings.what, cells)


def shared_base(settings: Reproduction) -> ArtifactRef | None:
    """Return the start encoder of all arms and seeds, as the papers start from one BERT."""
    base = settings.budget.base
    return None if base.per_arm else base_encoder(settings, base.encoder)


def all_results(settings: Reproduction, base: ArtifactRef | None) -> Iterator[list[ArmResult]]:
    """Yield the results of each trial; a trial that fails gives its error, and the others run."""
    for trial in trials(settings, base):
        results, error = isolate_errors(trial.label, partial(run_trial, trial))
        yield results or [
            ArmResult(arm=trial.arm.label, column=one.label, seed=trial.seed, error=error)
            for one in trial.columns
        ]


def trials(settings: Reproduction, base: ArtifactRef | None) -> Iterator[Trial]:
    """Yield all trials, seed by seed: a stopped run has complete tables of the first seeds."""
    for seed in settings.budget.seeds:
        for arm in settings.what.arms:
            for corpus, columns in settings.what.by_corpus(arm):
                if of_arm := [column for column in columns if has_result(arm, column)]:
                    yield Trial(
                        settings=settings,
                        arm=arm,
                        corpus=corpus,
                        columns=of_arm,
                        seed=seed,
                        base=base,
                    )


def has_result(arm: Arm, column: Column) -> bool:
    """Whether the arm can have a number in the column: BM25 has no vectors to probe."""
    if arm.alpha is not None or arm.system == "thesis BM25":
        return column.judge == TITLE
    if column.judge in OF_TRAINING:
        return any(not isinstance(step, Finish) for step in arm.steps)
    if arm.system in ("BM25", "random"):
        return column.judge == TITLE or (
            column.judge != CASE and not reads_vectors(task_of(column))
        )
    return True


@flow(name="arm", flow_run_name="{trial.label}")
def run_trial(trial: Trial) -> list[ArmResult]:
    """Train the arm's encoder and evaluate it; a judge that fails is the error of its column."""
    start = start_encoder(trial)
    system = trained_system(trial, start)
    common = {
        "arm": trial.arm.label,
        "seed": trial.seed,
        "less": less_than_requested(trial, start),
        "notes": training_notes(trial, start),
    }

    def result(column: Column) -> ArmResult:
        score, error = None, ""
        if column.judge not in OF_TRAINING:
            label = f"{trial.label}: {column.label}"
            score, error = isolate_errors(label, partial(evaluated, trial, start, system, column))
        own = {"column": column.label, "result": score, "error": error}
        return ArmResult.model_validate(common | own)

    return [result(column) for column in trial.columns]


def base_encoder(
    settings: Reproduction, config: EncoderConfig, corpus: Corpus | None = None
) -> ArtifactRef:
    """Return the encoder that arms start from, after its Condenser stage.

    Args:
        settings: Of the table.
        config: Of the encoder.
        corpus: Gives the vocabulary; None: the corpus of the base.
    """
    base = settings.budget.base
    if not (base.reads_corpus or corpus):
        return encoder_from(config, None)
    documents = documents_of(settings.corpus(corpus or base.corpus))
    encoder = encoder_from(config, documents)
    if not base.times:
        return encoder
    stage = Train(method=Condenser(), times=base.times, learning_rate=base.learning_rate)
    training = settings.training_of(stage, base.encoder.seed)
    return train_encoder(encoder, tokenise_sentences(documents, None, encoder), training).model


def start_encoder(trial: Trial) -> ArtifactRef:
    """Return the base, or the arm's own start encoder, under the arm's pooling and similarity."""
    settings, arm = trial.settings, trial.arm
    config = settings.encoder_of(arm, trial.seed)
    if trial.base is None:
        start = base_encoder(settings, config, trial.corpus)
    elif config != settings.budget.base.encoder:
        start = base_encoder(settings, config)
    else:
        start = trial.base
    return pooled_as(start, arm.pooling) if arm.pooling else start


def texts_of(trial: Trial, start: ArtifactRef, corpus: Corpus, *, sampled: bool = False) -> Texts:
    """Return a corpus, or the arm's sample of it, in the tokens of the start encoder."""
    settings, arm = trial.settings, trial.arm
    config = settings.corpus(corpus)
    if sampled:
        config = settings.corpus(corpus, sample_size(arm, config), distinct=arm.distinct)
    documents = documents_of(config)
    pool = draw_validation_pool(documents, settings.pool) if config.counterpart_column else None
    sentences = tokenise_sentences(documents, pool, trial.base or start)
    return Texts(documents=documents, sentences=sentences, pool=pool)


def sample_size(arm: Arm, config: CorpusConfig) -> int | None:
    """Return the number of documents that the arm trains on; None: all."""
    if arm.share is None:
        return arm.max_documents
    return max(2, round(arm.share * document_count(documents_of(config))))


def trained_system(trial: Trial, start: ArtifactRef) -> System:
    """Return the encoder after the arm's steps, or the arm's system without a training."""
    match trial.arm.system:
        case "encoder":
            return trained_encoder(trial, start)
        case "minilm":
            return encoder_from(MINILM, None)
        case "word vectors":
            texts = texts_of(trial, start, trial.corpus, sampled=True)
            return word_vectors(texts.documents, texts.pool, trial.seed)
        case "thesis BM25":
            return "BM25"
        case fixed:
            return fixed


def trained_encoder(trial: Trial, start: ArtifactRef) -> ArtifactRef:
    """Return the encoder after the arm's steps.

    Raises:
        RecipeError: E303, the first step continues a Condenser head that the encoder lacks.
        EmptyPairsError: E102, a method needs several sentences per document.
    """
    require_head(trial)
    texts = texts_of(trial, start, trial.corpus, sampled=True)
    steps = trial.settings.steps_of(trial.arm)
    methods = [step.method for step in steps if isinstance(step, Train | SelfTrain)]
    require_multi_sentence(texts.documents, methods)
    return encoder_after(steps, start, texts, trial)


def require_head(trial: Trial) -> None:
    """Raise E303 if the requested encoder lacks the Condenser head that the arm begins with."""
    settings = trial.settings
    first = next(iter(trial.arm.steps), None)
    if not (settings.start and isinstance(first, Train)):
        return
    method = settings.method_of(first)
    if begins_with_head(method) and not folder_with_head(settings.start):
        raise RecipeError(
            f"{method.name} continues the head of a Condenser stage, and {settings.encoder} has "
            f"none. Train one (`python -m flows run FILE --method condenser --encoder "
            f"{settings.encoder} --name stage`), then repeat with --encoder models:/stage/1."
        )


def encoder_after(
    steps: Iterable[Step], start: ArtifactRef, texts: Texts, trial: Trial
) -> ArtifactRef:
    """Return the encoder after all steps; after a last fine-tuning, the best fine-tuned one.

    InfoCSE++ keeps its best cycle, so an arm that fine-tunes several times may do so, too. The
    best has the highest R@5 on validation, the first of equals (mutual).
    """
    tuned: list[ArtifactRef] = []
    step = None
    encoder = first = start  # first: what the first of several rounds started from
    for step in steps:
        encoder = after_step(step, encoder, first, texts, trial)
        if isinstance(step, Label):
            tuned.append(encoder)
        if not isinstance(step, SelfTrain):
            first = encoder
    if not isinstance(step, Label) or len(tuned) == 1:
        return encoder
    assert texts.pool is not None, "labels are counterparts"
    scores = [validate_encoder(one, texts.sentences, texts.pool) for one in tuned]
    return tuned[stopping_decision([recall_at_5(one) for one in scores]).best]


def after_step(
    step: Step, encoder: ArtifactRef, first: ArtifactRef, texts: Texts, trial: Trial
) -> ArtifactRef:
    """Return the encoder after one step; a round may restart from `first`."""
    settings = trial.settings
    if isinstance(step, Finish):
        return finished_encoder(encoder, texts.sentences, step.map, trial.seed)
    training = settings.training_of(step, trial.seed)
    pool = texts.pool if training.evaluate_every else None
    match step:
        case Train():
            return train_encoder(encoder, texts.sentences, training, validation_pool=pool).model
        case SelfTrain():
            annotation = annotated(step, encoder, texts, trial.seed)
            return train_encoder(
                first if step.restart else encoder,
                texts.sentences,
                training,
                clusters=annotation.clusters,
                pairs=annotation.pairs,
                validation_pool=pool,
            ).model
        case Label():
            assert texts.pool is not None, "labels are counterparts"
            labels = labels_of(texts, step.count, trial)
            return train_on_labels(
                labels, encoder, training, settings.limits, texts.pool, texts.sentences
            ).model


def annotated(step: SelfTrain, encoder: ArtifactRef, texts: Texts, seed: int) -> Annotation:
    """Return the annotation by the encoder itself, or by MiniLM."""
    sentences = texts.sentences
    if step.annotator == "minilm":
        encoder = encoder_from(MINILM, None)
        sentences = tokenise_sentences(texts.documents, texts.pool, encoder)
    return annotate(encoder, sentences, step.annotation.model_copy(update={"seed": seed}))


def labels_of(texts: Texts, count: int | None, trial: Trial) -> Labelled:
    """Return the first labels by hash, outside the pool."""
    assert texts.pool is not None, "labels are counterparts"
    return draw_labels(texts.documents, texts.pool, trial.settings.pool.label_share, count)


def evaluated(trial: Trial, start: ArtifactRef, system: System, column: Column) -> ArtifactRef:
    """Return the result of a system in one column."""
    if column.judge == CASE:
        assert isinstance(system, ArtifactRef), "only encoders cluster titles"
        return score_case(system)
    if column.judge != TITLE:
        place = placed(task_of(column), Path(trial.settings.data, folder_of(column)))
        return result_on(place, system, seed=trial.seed)
    texts, arm = texts_of(trial, start, column.corpus), trial.arm
    assert texts.pool is not None, "titles are counterparts"
    if arm.system == "thesis BM25":
        return literal_bm25_scores(texts.documents, texts.pool)
    if system == "BM25":
        return bm25_scores(texts.documents, texts.pool)
    if not isinstance(system, ArtifactRef):
        return random_scores(texts.sentences, texts.pool, trial.seed)
    sentences = texts.sentences
    if arm.system != "encoder":  # it has a vocabulary of its own
        sentences = tokenise_sentences(texts.documents, texts.pool, system)
    if arm.alpha is not None:
        alpha = None if arm.alpha == "chosen" else arm.alpha
        return rescored_scores(system, sentences, texts.documents, texts.pool, alpha)
    return validate_encoder(system, sentences, texts.pool)


def less_than_requested(trial: Trial, start: ArtifactRef) -> tuple[str, ...]:
    """Return the documents and labels of the corpus, if the arm requests more."""
    arm = trial.arm
    if not arm.steps:
        return ()
    texts = texts_of(trial, start, trial.corpus, sampled=True)
    requested = [step.count for step in arm.steps if isinstance(step, Label) and step.count]
    counts = {count: labels_of(texts, count, trial).count for count in requested}
    parts = [counted(has, "label") for count, has in counts.items() if has < count]
    if arm.max_documents and (has := document_count(texts.documents)) < arm.max_documents:
        parts.insert(0, counted(has, "document"))
    return tuple(f"{part} of {trial.corpus}" for part in dict.fromkeys(parts))


def training_notes(trial: Trial, start: ArtifactRef) -> tuple[str, ...]:
    """Return how many segments HiCL's texts have, and the loss of a Condenser stage before it."""
    settings, arm = trial.settings, trial.arm
    trainings = [step for step in settings.steps_of(arm) if isinstance(step, Train)]
    if is_dry_run() or not trainings:
        return ()
    texts = texts_of(trial, start, trial.corpus, sampled=True)
    shares = [
        log_segment_counts(settings.method_of(one), texts.sentences, start) for one in trainings
    ]
    notes = [
        f"segments of a text of {trial.corpus}: "
        + ", ".join(f"{count} in {share:.1%}" for count, share in of_texts.items())
        for of_texts in shares
        if of_texts
    ]
    if isinstance(trainings[0].method, Condenser) and len(arm.steps) > 1:
        stage = encoder_after(trainings[:1], start, texts, trial)
        unseen = tokenise_sentences(documents_of(unseen_sentences(trial)), None, start)
        loss = language_of(measure_language(stage, texts.sentences, unseen))
        notes.append(
            f"masked-token loss of the Condenser stage on unseen texts of {trial.corpus}: "
            f"{loss.late:.2f} nats, of its head {loss.condensed:.2f}, by token frequency "
            f"{loss.unigram:.2f}"
        )
    return tuple(notes)


def unseen_sentences(trial: Trial) -> CorpusConfig:
    """Return sentences that no arm trains on: the titles of the corpus, else of STS-B dev."""
    settings = trial.settings
    if has_counterparts(trial.corpus):
        corpus = settings.corpus(trial.corpus)
        return CorpusConfig(
            source=corpus.source,
            text_column=corpus.counterpart_column,
            splitter="none",
            max_documents=3_000,
        )
    (file,) = chosen(["STS-B-dev"])[0].files
    source = str(Path(settings.data) / file)
    return CorpusConfig(source=source, text_column="sentence1", splitter="none")


def overlaps_with(settings: Reproduction) -> dict[Corpus, tuple[ArtifactRef | None, str]]:
    """Return the overlap of the suite's texts with each training corpus, or its error.

    For BEIR folders only the queries are compared; `benchmark --corpus` also compares documents.
    """
    by_judge = {one.judge: one for one in settings.what.columns}
    columns = [one for one in by_judge.values() if one.judge not in WITHOUT_FILES]
    places = [placed(task_of(one), Path(settings.data, folder_of(one))) for one in columns]

    def measured(corpus: Corpus) -> ArtifactRef:
        documents = documents_of(settings.corpus(corpus))
        return overlap_with(documents, places, beir_documents=False)

    return {
        corpus: isolate_errors(f"overlap with {corpus}", partial(measured, corpus))
        for corpus in (settings.corpora_read if places else [])
    }


def pools_of(settings: Reproduction) -> dict[str, ArtifactRef]:
    """Return column -> its pool of titles; the first column of each corpus; none after an error."""
    titled = [one for one in settings.what.columns if one.judge == TITLE]
    columns = grouped((one.corpus, one.label) for one in titled)

    def drawn(corpus: Corpus) -> ArtifactRef:
        return draw_validation_pool(documents_of(settings.corpus(corpus)), settings.pool)

    pools = {
        label: isolate_errors(f"pool of {label}", partial(drawn, corpus))[0]
        for corpus, (label, *_) in columns.items()
    }
    return {label: pool for label, pool in pools.items() if pool}
