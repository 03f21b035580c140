"""InfoCSE with intra-document clustering (mutual): annotate, train, validate, in rounds."""

import logging

from prefect import flow

from flows.annotation import annotation_of
from flows.pipeline import (
    OnRow,
    encoder_from,
    row_after_training,
    run_before_training,
    run_pipeline,
    validated_row,
    verdict_on_rounds,
)
from sentemb_core.config.methods import CONPONO, InfoCSEIDCPairs
from sentemb_core.config.run import InfoCSEIDC, TrainingConfig
from sentemb_core.formats import counted
from sentemb_core.stopping import StoppingDecision
from tasks.corpus import tokenise_sentences
from tasks.execution import is_dry_run, sub_flow
from tasks.report import Outcome
from tasks.run_result import EncoderResult, RunResult, Texts
from tasks.train import steps_of, train_encoder
from tasks.validate import diagnose_round, recall_at_5

log = logging.getLogger("sentemb_core.run")


@flow(name="infocse-idc", flow_run_name="{config.name}")
def infocse_idc(config: InfoCSEIDC) -> Outcome:
    """Documents in, a better encoder out: reported, registered, promoted if the gate agrees.

    Args:
        config: The whole run; every setting brings its source.
    """
    return run_pipeline(config, self_train)


def self_train(config: InfoCSEIDC, watch: OnRow) -> RunResult:
    """Annotate with the current encoder, train on what it found, stop when R@5 stops growing."""
    run = run_before_training(config, watch)
    base = run.rows[-1]
    annotator = first_annotator(config, run.texts) or base
    rounds = self_trained(base, annotator, run.texts, config, watch)
    best = verdict_on_rounds([base, *rounds], config.rounds).best
    return run.model_copy(
        update={
            "rows": [*run.rows, *rounds],
            "controls": controls_of(rounds, base, run.texts, config, watch),
            "best": len(run.rows) - 1 + best,
        }
    )


def self_trained(
    base: EncoderResult,
    annotator: EncoderResult,
    texts: Texts,
    config: InfoCSEIDC,
    watch: OnRow,
    label: str = "round",
) -> list[EncoderResult]:
    """The rounds from `base` on: what each finds, the next one learns (mutual, Algorithm 1)."""
    rows = [base]
    while (said := verdict_on_rounds(rows, config.rounds)).go_on:
        name = f"{label} {len(rows)}"
        tell(f"{name} of at most {config.rounds.max_rounds} (rounds.max_rounds)")
        rows.append(training_round(name, rows[-1], annotator, texts, config))
        annotator = rows[-1]
        watch(rows[-1])
    tell_end(rows, said)
    return rows[1:]


def tell_end(rows: list[EncoderResult], said: StoppingDecision) -> None:
    """Why no further round follows, and by which scores."""
    scores = ", ".join(f"{row.label} {recall_at_5(row.scores):.3f}" for row in rows)
    tell(
        f"{rows[-1].label} was the last: {said.reason} (rounds.patience, rounds.max_rounds); "
        f"R@5 on the validation split: {scores}"
    )


def tell(line: str) -> None:
    """Log where a run is; a plan, which looks ahead, is nowhere."""
    if not is_dry_run():
        log.info("%s", line)


@sub_flow(name="round", flow_run_name="{label}")
def training_round(
    label: str, student: EncoderResult, annotator: EncoderResult, texts: Texts, config: InfoCSEIDC
) -> EncoderResult:
    """One round of Algorithm 1: what the annotator finds, the student learns."""
    found = annotation_of(
        annotator.encoder, annotator.sentences, config.annotation, annotator.embeddings
    )
    made = train_encoder(
        student.encoder,
        texts.sentences,
        config.training,
        clusters=found.clusters,
        pairs=found.pairs,
        validation_pool=texts.validation_pool if config.training.evaluate_every else None,
    )
    row = validated_row("round", label, made.model, texts, config.annotation)
    diagnostics = diagnose_round(
        annotator.encoder,
        annotator.sentences,
        found,
        annotator.embeddings,
        row.embeddings,
        annotator.annotation,
        config.annotation,
    )
    told = {"before": student.label, "log": made.log}
    return row.model_copy(update=told | {"annotation": found, "diagnostics": diagnostics})


def first_annotator(config: InfoCSEIDC, texts: Texts) -> EncoderResult | None:
    """Round 1's own annotator with its own tokens, if the config names one (erratum E12)."""
    if config.annotator is None:
        return None
    encoder = encoder_from(config.annotator, texts.documents)
    sentences = tokenise_sentences(texts.documents, texts.validation_pool, encoder)
    own = texts.model_copy(update={"sentences": sentences})
    return validated_row("annotator", "annotator of round 1", encoder, own, config.annotation)


def controls_of(
    rounds: list[EncoderResult], base: EncoderResult, texts: Texts, config: InfoCSEIDC, watch: OnRow
) -> list[EncoderResult]:
    """The same numbers of steps on plain neighbours: what more training alone is worth."""
    controls = [base]
    if config.control:
        tell(
            f"to come, for comparison: {counted(len(rounds), 'control')}, as many steps as the "
            "rounds had on neighbours alone, to tell what self-annotation itself is worth; "
            "--set control=false leaves them out"
        )
    for number, round_ in enumerate(rounds, 1) if config.control else ():
        label = f"control {number}: neighbours only"
        training = as_long_as(round_, neighbours_only(config, number))
        controls.append(row_after_training("control", label, controls[-1], training, texts, config))
        watch(controls[-1])
    return controls[1:]


def as_long_as(round_: EncoderResult, training: TrainingConfig) -> TrainingConfig:
    """With the steps that the round took, where patience may have ended it, and none of its own."""
    if training.patience is None:
        return training
    assert round_.log, "a round keeps the log of its training"
    return training.model_copy(update={"steps": steps_of(round_.log), "patience": None})


def neighbours_only(config: InfoCSEIDC, number: int) -> TrainingConfig:
    """A round's training without its annotation; cluster batches count sentences, not pairs.

    A round has pairs that none had before; a control has a seed that none had, or it would see the
    first batches of its epoch again and again.
    """
    rounds = config.training.method
    assert isinstance(rounds, InfoCSEIDCPairs), "as the settings demand"
    return config.training.model_copy(
        update={
            "method": CONPONO(temperature=rounds.temperature),
            "seed": config.training.seed + number,
            "batch_size": config.training.batch_size // (2 if rounds.batches == "cluster" else 1),
        }
    )
