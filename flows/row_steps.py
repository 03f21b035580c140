"""What the steps of a table's row make of its start encoder, one after the other."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flows.annotation_variants import annotate
from flows.fine_tune import train_on_labels
from flows.pipeline import encoder_from
from flows.presets import SMALL_EPOCHS
from sentemb_core.config.experiments import Finish, Label, SelfTrain, Step, Train
from sentemb_core.config.run import EncoderConfig, LabelsConfig, TrainingConfig
from sentemb_core.stopping import stopping_decision
from sentemb_core.types import ArtifactRef, Value
from tasks.corpus import draw_labels, tokenise_sentences
from tasks.encode import finished_encoder
from tasks.run_result import Annotation, Labelled
from tasks.train import train_encoder
from tasks.validate import recall_at_5, validate_encoder


class RowTexts(Value):
    """A corpus as rows read it; one whose documents have counterparts can judge."""

    documents: ArtifactRef
    sentences: ArtifactRef
    validation_pool: ArtifactRef | None


class Rules(NamedTuple):
    """How a row learns: a training for each step, when fine-tuning stops, who gives labels.

    seed: of the maps; a training has its own.
    label_share: of the counterparts outside the pool.
    """

    training_of: Callable[[Train | SelfTrain | Label], TrainingConfig]
    seed: int
    limits: LabelsConfig = SMALL_EPOCHS
    label_share: float = 0.0


def encoder_after(
    steps: Sequence[Step], start: ArtifactRef, texts: RowTexts, rules: Rules
) -> ArtifactRef:
    """What the steps make of the start; if they end in a fine-tuning, the best of all of these."""
    tuned: list[ArtifactRef] = []
    encoder = first = start  # of a chain of rounds, what the first one began with
    for step in steps:
        encoder = after_step(step, encoder, first, texts, rules)
        if isinstance(step, Label):
            tuned.append(encoder)
        if not isinstance(step, SelfTrain):
            first = encoder
    return best_of(tuned, texts) if steps and isinstance(steps[-1], Label) else encoder


def after_step(
    step: Step, before: ArtifactRef, first: ArtifactRef, texts: RowTexts, rules: Rules
) -> ArtifactRef:
    """The encoder after one step; a round may train the `first` of its chain anew."""
    match step:
        case Train():
            training = rules.training_of(step)
            judge = judges(texts, training)
            return train_encoder(before, texts.sentences, training, validation_pool=judge).model
        case SelfTrain():
            found = annotated(step, before, texts)
            training = rules.training_of(step)
            return train_encoder(
                first if step.anew else before,
                texts.sentences,
                training,
                clusters=found.clusters,
                pairs=found.pairs,
                validation_pool=judges(texts, training),
            ).model
        case Label():
            return labelled_encoder(step, before, texts, rules)
        case Finish():
            return finished_encoder(before, texts.sentences, step.map, rules.seed)


def judges(texts: RowTexts, training: TrainingConfig) -> ArtifactRef | None:
    """The pool that a training stops by, if it is validated at all."""
    return texts.validation_pool if training.evaluate_every else None


def annotated(step: SelfTrain, student: ArtifactRef, texts: RowTexts) -> Annotation:
    """What the annotator finds, by the partition of its graph or by k-means."""
    annotator, sentences = student, texts.sentences
    if step.annotator == "minilm":
        annotator = minilm()
        sentences = tokenise_sentences(texts.documents, texts.validation_pool, annotator)
    return annotate(annotator, sentences, step.annotation)


def minilm() -> ArtifactRef:
    """A supervised encoder (mutual's SBERT), as it is."""
    return encoder_from(EncoderConfig(name="minilm"), None)


def labelled_encoder(
    step: Label, encoder: ArtifactRef, texts: RowTexts, rules: Rules
) -> ArtifactRef:
    """The encoder of the best epoch on the labels outside the pool."""
    assert texts.validation_pool is not None, "labels are counterparts"
    return train_on_labels(
        labels_of(texts, rules.label_share, step.count),
        encoder,
        rules.training_of(step),
        rules.limits,
        texts.validation_pool,
        texts.sentences,
    ).model


def labels_of(texts: RowTexts, share: float, count: int | None) -> Labelled:
    """The first labels by hash."""
    assert texts.validation_pool is not None, "labels are counterparts"
    return draw_labels(texts.documents, texts.validation_pool, share, count)


def best_of(tuned: Sequence[ArtifactRef], texts: RowTexts) -> ArtifactRef:
    """The fine-tuned encoder of the highest R@5 on validation, the first of equals (mutual).

    InfoCSE++ is asked for its best cycle, and who is held against it may fall back, too.
    """
    if len(tuned) == 1:
        return tuned[0]
    assert texts.validation_pool is not None, "labels are counterparts"
    scores = [validate_encoder(one, texts.sentences, texts.validation_pool) for one in tuned]
    return tuned[stopping_decision([recall_at_5(one) for one in scores]).best]
