"""Fine-tuning on labelled pairs (mutual, section 3.3): documents and their counterparts."""

from flows.pipeline import OnRow, prepare_run, run_pipeline, stop_rounds, validated_encoder
from sentemb_core.config.run import (
    FineTuneRun,
    InfoCSEPlus,
    LabelsConfig,
    RoundsConfig,
    TrainingConfig,
)
from sentemb_core.types import ArtifactRef
from tasks.artifacts import EncoderResult, Labelled, RunResult, Texts, Trained
from tasks.corpus import draw_labels, tokenise_sentences
from tasks.execution import flow
from tasks.report import Outcome
from tasks.train import train_encoder


@flow(name="fine-tune", flow_run_name="{config.name}")
def fine_tune(config: FineTuneRun) -> Outcome:
    """Fine-tune an encoder on labelled pairs; publish, gate and report the better one.

    Args:
        config: All settings of the run, each with its source.
    """
    return run_pipeline(config, fine_tune_once)


def fine_tune_once(config: FineTuneRun, on_row: OnRow) -> RunResult:
    """Return the encoder before and after fine-tuning; the better one on validation is the best."""
    run = prepare_run(config, on_row)
    base = run.rows[-1]
    labels = labels_of(run.texts, config)
    label = "after fine_tune"
    tuned = fine_tuned_encoder(label, base, labels, config.training, run.texts, config)
    on_row(tuned)
    best = len(run.rows) - 1 + stop_rounds([base, tuned], RoundsConfig()).best
    return run.model_copy(update={"rows": [*run.rows, tuned], "best": best, "labels": labels.count})


def labels_of(texts: Texts, config: FineTuneRun | InfoCSEPlus) -> Labelled:
    """Return the labelled documents outside the validation pool that a run may learn from."""
    share = config.validation.label_share
    return draw_labels(texts.documents, texts.validation_pool, share, config.labels.count)


@flow(name="fine-tuning", flow_run_name="{label}")
def fine_tuned_encoder(
    label: str,
    parent: EncoderResult,
    labels: Labelled,
    training: TrainingConfig,
    texts: Texts,
    config: FineTuneRun | InfoCSEPlus,
) -> EncoderResult:
    """Fine-tune an encoder, and validate its best epoch."""
    trained = train_on_labels(
        labels, parent.encoder, training, config.labels, texts.validation_pool, texts.sentences
    )
    result = validated_encoder("fine-tuned", label, trained.model, texts, config.annotation)
    return result.model_copy(update={"parent": parent.label, "log": trained.log})


def train_on_labels(
    labels: Labelled,
    encoder: ArtifactRef,
    training: TrainingConfig,
    limits: LabelsConfig,
    validation_pool: ArtifactRef,
    sentences: ArtifactRef,
) -> Trained:
    """Return the encoder of the best epoch over the labels.

    Validation reads the pool's documents from `sentences`, the corpus in the encoder's tokens.
    """
    return train_encoder(
        encoder,
        tokenise_sentences(labels.documents, None, encoder, counterparts=True),
        by_epochs(training, labels.count, limits),
        validation_pool=validation_pool,
        judged=sentences,
    )


def by_epochs(training: TrainingConfig, labels: int, limits: LabelsConfig) -> TrainingConfig:
    """Set steps, validations and patience of a training that counts in epochs over its labels."""
    epoch = max(1, labels // training.batch_size)
    return training.model_copy(
        update={
            "steps": epoch * limits.epochs,
            "evaluate_every": epoch,
            "patience": limits.patience,
        }
    )
