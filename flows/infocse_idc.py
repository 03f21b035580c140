"""InfoCSE-IDC (mutual, Algorithm 1): an encoder finds pairs in a corpus and learns them, in rounds.

`training_round` is one round, stage by stage. Eq. 3 is `prune_graph` (tasks/annotate.py; the
computation is `prune_to_top_k` in annotation/pruning.py). The last steps are `validated_encoder`
and `diagnose_round`. `stop_rounds` decides whether another round follows.
`flows/pipeline.run_pipeline` publishes the best encoder; `tasks/gate.py` decides whether it becomes
the champion.
"""

import logging

from flows.annotation_variants import annotate, is_variant
from flows.pipeline import (
    OnRow,
    encoder_from,
    prepare_run,
    run_pipeline,
    stop_rounds,
    trained_encoder,
    validated_encoder,
)
from sentemb_core.config.methods import CONPONO, InfoCSEIDCPairs
from sentemb_core.config.run import InfoCSEIDC, TrainingConfig
from sentemb_core.formats import counted
from tasks.annotate import build_graph, cluster_sentences, export_pairs, prune_graph
from tasks.artifacts import Annotation, EncoderResult, RunResult, Texts
from tasks.corpus import tokenise_sentences
from tasks.encode import encode_sentences
from tasks.execution import flow, is_dry_run
from tasks.report import Outcome
from tasks.train import steps_of, train_encoder
from tasks.validate import diagnose_round, recall_at_5

log = logging.getLogger("sentemb_core.run")


@flow(name="infocse-idc", flow_run_name="{config.name}")
def infocse_idc(config: InfoCSEIDC) -> Outcome:
    """Train an encoder on a corpus in rounds; publish, gate and report the best one.

    Args:
        config: All settings of the run, each with its source.
    """
    return run_pipeline(config, self_train)


def self_train(config: InfoCSEIDC, on_row: OnRow) -> RunResult:
    """Return the start, the encoder of every round, their controls, and which one is the best."""
    run = prepare_run(config, on_row)
    base = run.rows[-1]
    annotator = first_annotator(config, run.texts) or base
    rounds = run_rounds(base, annotator, run.texts, config, on_row)
    best = stop_rounds([base, *rounds], config.rounds).best
    return run.model_copy(
        update={
            "rows": [*run.rows, *rounds],
            "controls": train_controls(rounds, base, run.texts, config, on_row),
            "best": len(run.rows) - 1 + best,
        }
    )


def run_rounds(
    base: EncoderResult,
    annotator: EncoderResult,
    texts: Texts,
    config: InfoCSEIDC,
    on_row: OnRow,
    label: str = "round",
) -> list[EncoderResult]:
    """Return the encoders of the rounds from `base` on, until R@5 stops growing (Algorithm 1).

    The encoder of a round annotates the corpus for the next one.
    """
    rows = [base]
    while (decision := stop_rounds(rows, config.rounds)).go_on:
        name = f"{label} {len(rows)}"
        log_progress(f"{name} of at most {config.rounds.max_rounds} (rounds.max_rounds)")
        rows.append(training_round(name, rows[-1], annotator, texts, config))
        annotator = rows[-1]
        on_row(rows[-1])
    scores = ", ".join(f"{row.label} {recall_at_5(row.scores):.3f}" for row in rows)
    log_progress(
        f"{rows[-1].label} was the last: {decision.reason} (rounds.patience, rounds.max_rounds); "
        f"R@5 on the validation split: {scores}"
    )
    return rows[1:]


@flow(name="round", flow_run_name="{label}")
def training_round(
    label: str, student: EncoderResult, annotator: EncoderResult, texts: Texts, config: InfoCSEIDC
) -> EncoderResult:
    """Return the student, trained on the pairs that the annotator finds in the corpus.

    Every step is a stage: it runs once for the same inputs, code and settings.
    """
    idc, sentences = config.annotation, annotator.sentences

    if is_variant(idc):  # k-means, edges or related pairs, or vectors that are not kept
        annotation = annotate(annotator.encoder, sentences, idc, annotator.embeddings)
    else:
        embeddings = encode_sentences(annotator.encoder, sentences, idc.dtype, idc.storage)
        graph = build_graph(embeddings, sentences, idc.degree, idc.min_distance)  # Eq. 2
        edges = prune_graph(graph, idc.top_k, idc.mutual)  # Eq. 3
        clusters = cluster_sentences(edges, sentences)  # connected components
        pairs = export_pairs(  # Eq. 4
            clusters, sentences, idc.max_partners, idc.min_distance, idc.seed
        )
        annotation = Annotation(clusters=clusters, pairs=pairs)

    trained = train_encoder(
        student.encoder,
        texts.sentences,
        config.training,
        clusters=annotation.clusters,
        pairs=annotation.pairs,
        validation_pool=texts.validation_pool if config.training.evaluate_every else None,
    )
    result = validated_encoder("round", label, trained.model, texts, idc)
    diagnostics = diagnose_round(
        annotator.encoder,
        sentences,
        annotation,
        annotator.embeddings,
        result.embeddings,
        annotator.annotation,
        idc,
    )
    return result.model_copy(
        update={
            "parent": student.label,
            "log": trained.log,
            "annotation": annotation,
            "diagnostics": diagnostics,
        }
    )


def first_annotator(config: InfoCSEIDC, texts: Texts) -> EncoderResult | None:
    """Return an annotator for round 1 alone, with its own tokens, if one is named (erratum E12)."""
    if config.annotator is None:
        return None
    encoder = encoder_from(config.annotator, texts.documents)
    sentences = tokenise_sentences(texts.documents, texts.validation_pool, encoder)
    own = texts.model_copy(update={"sentences": sentences})
    return validated_encoder("annotator", "annotator of round 1", encoder, own, config.annotation)


def train_controls(
    rounds: list[EncoderResult],
    base: EncoderResult,
    texts: Texts,
    config: InfoCSEIDC,
    on_row: OnRow,
) -> list[EncoderResult]:
    """Return one control per round: as many steps on neighbouring sentences, without annotation."""
    if not config.control:
        return []
    log_progress(
        f"next: {counted(len(rounds), 'control')}, as many steps as the rounds on neighbouring "
        "sentences alone, to measure what self-annotation adds (--set control=false skips them)"
    )
    controls = [base]
    for number, round_ in enumerate(rounds, 1):
        label = f"control {number}: neighbours only"
        training = as_long_as(round_, neighbours_only(config, number))
        controls.append(trained_encoder("control", label, controls[-1], training, texts, config))
        on_row(controls[-1])
    return controls[1:]


def as_long_as(round_: EncoderResult, training: TrainingConfig) -> TrainingConfig:
    """The training with the number of steps that the round took, which patience may have ended."""
    if training.patience is None:
        return training
    assert round_.log, "a round keeps the log of its training"
    return training.model_copy(update={"steps": steps_of(round_.log), "patience": None})


def neighbours_only(config: InfoCSEIDC, number: int) -> TrainingConfig:
    """A round's training on neighbouring sentences; cluster batches count sentences, not pairs.

    Each control has its own seed: with the same one, all would see the first batches of an epoch.
    """
    method = config.training.method
    assert isinstance(method, InfoCSEIDCPairs), "the settings demand it"
    return config.training.model_copy(
        update={
            "method": CONPONO(temperature=method.temperature),
            "seed": config.training.seed + number,
            "batch_size": config.training.batch_size // (2 if method.batches == "cluster" else 1),
        }
    )


def log_progress(line: str) -> None:
    """Log where the run is; a dry run is nowhere."""
    if not is_dry_run():
        log.info("%s", line)
