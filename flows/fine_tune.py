"""Fine-tuning on labelled pairs (mutual, section 3.3): documents and their counterparts."""

from prefect import flow

from flows.pipeline import (
    OnRow,
    run_before_training,
    run_pipeline,
    validated_row,
    verdict_on_rounds,
)
from sentemb_core.config.run import (
    FineTuneRun,
    InfoCSEPlus,
    LabelsConfig,
    RoundsConfig,
    TrainingConfig,
)
from sentemb_core.types import ArtifactRef
from tasks.corpus import draw_labels, tokenise_sentences
from tasks.execution import sub_flow
from tasks.report import Outcome
from tasks.run_result import EncoderResult, Labelled, RunResult, Texts, Trained
from tasks.train import train_encoder


@flow(name="fine-tune", flow_run_name="{config.name}")
def fine_tune(config: FineTuneRun) -> Outcome:
    """Documents and labelled pairs in, a fine-tuned encoder out: reported, registered, gated.

    Args:
        config: The whole run; every setting brings its source.
    """
    return run_pipeline(config, fine_tuned_once)


def fine_tuned_once(config: FineTuneRun, watch: OnRow) -> RunResult:
    """The encoder before and after fine-tuning; the better one on validation is kept."""
    run = run_before_training(config, watch)
    base = run.rows[-1]
    labels = labels_of(run.texts, config)
    tuned = fine_tuned_row("after fine_tune", base, labels, config.training, run.texts, config)
    watch(tuned)
    best = len(run.rows) - 1 + verdict_on_rounds([base, tuned], RoundsConfig()).best
    return run.model_copy(update={"rows": [*run.rows, tuned], "best": best, "labels": labels.count})


def labels_of(texts: Texts, config: FineTuneRun | InfoCSEPlus) -> Labelled:
    """The labelled documents outside the pool that a run may learn from."""
    share = config.validation.label_share
    return draw_labels(texts.documents, texts.validation_pool, share, config.labels.count)


@sub_flow(name="fine-tuning", flow_run_name="{label}")
def fine_tuned_row(
    label: str,
    before: EncoderResult,
    labels: Labelled,
    training: TrainingConfig,
    texts: Texts,
    config: FineTuneRun | InfoCSEPlus,
) -> EncoderResult:
    """The encoder of the best epoch on validation."""
    made = training_on_labels(
        labels, before.encoder, training, config.labels, texts.validation_pool, texts.sentences
    )
    row = validated_row("fine-tuned", label, made.model, texts, config.annotation)
    return row.model_copy(update={"before": before.label, "log": made.log})


def training_on_labels(
    labels: Labelled,
    encoder: ArtifactRef,
    training: TrainingConfig,
    limits: LabelsConfig,
    validation_pool: ArtifactRef,
    sentences: ArtifactRef,
) -> Trained:
    """What passes over the labels make of an encoder: its best epoch on validation.

    Documents of the validation pool are judged by `sentences`, the corpus in the encoder's tokens.
    """
    return train_encoder(
        encoder,
        tokenise_sentences(labels.documents, None, encoder),
        by_epochs(training, labels.count, limits),
        validation_pool=validation_pool,
        judged=sentences,
    )


def by_epochs(training: TrainingConfig, labels: int, limits: LabelsConfig) -> TrainingConfig:
    """Steps, validations and patience of a training that counts in passes over its labels."""
    an_epoch = max(1, labels // training.batch_size)
    return training.model_copy(
        update={
            "steps": an_epoch * limits.epochs,
            "evaluate_every": an_epoch,
            "patience": limits.patience,
        }
    )
