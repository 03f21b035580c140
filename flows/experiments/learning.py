"""How an arm's encoder is made: the base that all share, then the arm's steps."""

from collections.abc import Sequence

from flows.annotation import annotation_of
from flows.experiments.index import Reproduction
from flows.fine_tune import training_on_labels
from flows.steps import documents_of, encoder_from
from sentemb_core.configs import CorpusConfig, EncoderConfig, TrainingConfig
from sentemb_core.errors import RecipeError
from sentemb_core.experiments import Arm, Corpus, Finish, Label, SelfTrain, Step, Train
from sentemb_core.formats import counted
from sentemb_core.method_settings import Condenser
from sentemb_core.stopping import verdict
from sentemb_core.types import ArtifactRef, Value
from tasks.checks import begins_with_head, folder_with_head
from tasks.corpus import document_count, draw_benchmark, tokenise_sentences
from tasks.encode import finished_encoder, pooled_as, start_encoder
from tasks.labels import draw_labels
from tasks.rows import Annotation, Labelled
from tasks.segments import tell_segmented
from tasks.train import train_encoder
from tasks.validate import recall_at_5, validate_encoder


class ArmTexts(Value):
    """A corpus as arms read it; those with counterparts can judge."""

    documents: ArtifactRef
    sentences: ArtifactRef
    benchmark: ArtifactRef | None


class Made(Value):
    """An encoder on its way, and what the first round of self-training began with."""

    encoder: ArtifactRef
    initial: ArtifactRef | None = None


def base_of(asked: Reproduction, config: EncoderConfig | None = None) -> Made:
    """The encoder that every arm of every seed starts from, as the papers start from one BERT.

    `config` says how it is read; none: as the budget has it.
    """
    budget = asked.budget
    named = config or budget.base.encoder
    if not budget.base.reads_corpus:
        return Made(encoder=encoder_from(named, None))
    documents = documents_of(asked.corpus(budget.base.corpus))
    encoder = encoder_from(named, documents)
    if not budget.base.times:
        return Made(encoder=encoder)
    training = asked.training(Condenser(), budget.base.encoder.seed, budget.base.times).model_copy(
        update={"learning_rate": budget.base.learning_rate}
    )
    made = train_encoder(encoder, tokenise_sentences(documents, None, encoder), training)
    return Made(encoder=made.model)


def texts_of(asked: Reproduction, base: Made, corpus: Corpus, arm: Arm | None = None) -> ArmTexts:
    """Documents, tokens, and the pool of a corpus whose documents have counterparts.

    What an arm trains on may be a part of it.
    """
    config = asked.corpus(corpus)
    if arm:
        config = asked.corpus(corpus, sample_of(arm, config), distinct=arm.distinct)
    documents = documents_of(config)
    benchmark = draw_benchmark(documents, asked.pool) if config.counterpart_column else None
    sentences = tokenise_sentences(documents, benchmark, base.encoder)
    return ArmTexts(documents=documents, sentences=sentences, benchmark=benchmark)


def sample_of(arm: Arm, config: CorpusConfig) -> int | None:
    """Documents that the arm trains on; none: all of them."""
    if arm.share is None:
        return arm.max_documents
    return max(2, round(arm.share * document_count(documents_of(config))))


def less_than_asked(asked: Reproduction, base: Made, arm: Arm, corpus: Corpus) -> tuple[str, ...]:
    """Documents and labels that the corpus has, where the arm asks for more."""
    if not arm.steps:
        return ()
    texts = texts_of(asked, base, corpus, arm)
    found = [
        (labels_for(step, texts, asked).count, step.count)
        for step in arm.steps
        if isinstance(step, Label) and step.count
    ]
    told = list(dict.fromkeys(counted(has, "label") for has, wanted in found if has < wanted))
    if arm.max_documents and (has := document_count(texts.documents)) < arm.max_documents:
        told.insert(0, counted(has, "document"))
    return tuple(f"{one} of {corpus}" for one in told)


def arm_encoder(
    asked: Reproduction, base: Made, arm: Arm, corpus: Corpus, seed: int
) -> ArtifactRef:
    """The arm's encoder: what its steps make of the base; of several fine-tunings the best."""
    require_head(arm, asked)
    made = read_by(arm, asked, base)
    texts = texts_of(asked, base, corpus, arm)
    tuned: list[ArtifactRef] = []
    for step in asked.steps_of(arm):
        made = after_step(step, made, texts, asked, seed)
        tuned += [made.encoder] if isinstance(step, Label) else []
    chosen = len(tuned) > 1 and tuned[-1] == made.encoder
    return best_of(tuned, texts) if chosen else made.encoder


def require_head(arm: Arm, asked: Reproduction) -> None:
    """An arm that begins with the head of a Condenser stage, from an encoder that has one.

    Raises:
        RecipeError: E303, the table's encoder was asked for and has none.
    """
    first = next(iter(arm.steps), None)
    if not (asked.start and isinstance(first, Train)):
        return
    method = asked.method_of(first)
    if begins_with_head(method) and not folder_with_head(asked.start):
        raise RecipeError(
            f"{method.name} goes on with the head of a Condenser stage, and {asked.encoder} has "
            f"none: train one (`python -m flows run FILE --method condenser --encoder "
            f"{asked.encoder} --name stage`), and make the table of it with "
            "--encoder models:/stage/1."
        )


def best_of(tuned: Sequence[ArtifactRef], texts: ArmTexts) -> ArtifactRef:
    """The fine-tuned encoder of the highest R@5 on validation, the first of equals (seed 000).

    InfoCSE++ is asked for its best cycle, and who is held against it may fall back, too.
    """
    assert texts.benchmark is not None, "labels are counterparts"
    scores = [validate_encoder(one, texts.sentences, texts.benchmark) for one in tuned]
    return tuned[verdict([recall_at_5(one) for one in scores]).best]


def read_by(arm: Arm, asked: Reproduction, base: Made) -> Made:
    """The base under the arm's own pooling and similarity."""
    config = asked.encoder_of(arm)
    made = base if config == asked.budget.base.encoder else base_of(asked, config)
    return Made(encoder=pooled_as(made.encoder, arm.pooling)) if arm.pooling else made


def after_step(step: Step, before: Made, texts: ArmTexts, asked: Reproduction, seed: int) -> Made:
    """The encoder after one step."""
    match step:
        case Train():
            method = asked.method_of(step)
            tell_segmented(method, texts.sentences, before.encoder)
            training = asked.training(method, seed, step.times, step.batch_size)
            judge = judges(texts, training)
            made = train_encoder(before.encoder, texts.sentences, training, benchmark=judge)
            return Made(encoder=made.model)
        case SelfTrain():
            found = annotated(step, before.encoder, texts)
            training = asked.round_training(step, seed)
            initial = before.initial or before.encoder
            made = train_encoder(
                initial if step.anew else before.encoder,
                texts.sentences,
                training,
                clusters=found.clusters,
                pairs=found.pairs,
                benchmark=judges(texts, training),
            )
            return Made(encoder=made.model, initial=initial)
        case Label():
            return Made(encoder=labelled_encoder(step, before.encoder, texts, asked, seed))
        case Finish():
            return Made(encoder=finished_encoder(before.encoder, texts.sentences, step.map, seed))


def judges(texts: ArmTexts, training: TrainingConfig) -> ArtifactRef | None:
    """The pool that a training stops by, if it is validated at all."""
    return texts.benchmark if training.evaluate_every else None


def annotated(step: SelfTrain, student: ArtifactRef, texts: ArmTexts) -> Annotation:
    """What the annotator finds, by the partition of its graph or by k-means."""
    annotator, sentences = student, texts.sentences
    if step.annotator == "minilm":
        annotator = minilm()
        sentences = tokenise_sentences(texts.documents, texts.benchmark, annotator)
    return annotation_of(annotator, sentences, step.annotation)


def labelled_encoder(
    step: Label, encoder: ArtifactRef, texts: ArmTexts, asked: Reproduction, seed: int
) -> ArtifactRef:
    """The encoder of the best epoch on the labels outside the pool."""
    assert texts.benchmark is not None, "labels are counterparts"
    labels, tuning = labels_for(step, texts, asked), asked.fine_tuning(step, seed)
    return training_on_labels(
        labels, encoder, tuning, asked.limits, texts.benchmark, texts.sentences
    ).model


def labels_for(step: Label, texts: ArmTexts, asked: Reproduction) -> Labelled:
    """The first labels by hash."""
    assert texts.benchmark is not None, "labels are counterparts"
    return draw_labels(texts.documents, texts.benchmark, asked.pool.label_share, step.count)


def minilm() -> ArtifactRef:
    """A supervised encoder (seed 000's SBERT), as it is."""
    return start_encoder("minilm", EncoderConfig(name="minilm"), None)
