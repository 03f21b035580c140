"""InfoCSE++ (mutual, section 3.3): cycles of self-training and fine-tuning on a few labels."""

from flows.fine_tune import fine_tuned_encoder, labels_of
from flows.infocse_idc import first_annotator, log_progress, run_rounds, self_train
from flows.pipeline import OnRow, prepare_run, run_pipeline, stop_rounds
from sentemb_core.config.run import CyclesConfig, InfoCSEPlus
from sentemb_core.stopping import StoppingDecision, stopping_decision
from tasks.artifacts import EncoderResult, Labelled, RunResult, Texts
from tasks.execution import flow
from tasks.report import Outcome
from tasks.validate import recall_at_5


@flow(name="infocse-plus", flow_run_name="{config.name}")
def infocse_plus(config: InfoCSEPlus) -> Outcome:
    """Train an encoder on a corpus and a few labelled pairs, in cycles; publish the best one.

    Args:
        config: All settings of the run, each with its source.
    """
    return run_pipeline(config, self_train_and_fine_tune)


def self_train_and_fine_tune(config: InfoCSEPlus, on_row: OnRow) -> RunResult:
    """Run cycles, each from the last fine-tuned encoder, until that one stops growing.

    The encoder returned is always fine-tuned. Without labels or cycles this is InfoCSE-IDC.
    """
    if not config.uses_labels:
        return self_train(config, on_row)
    run = prepare_run(config, on_row)
    labels = labels_of(run.texts, config)
    base, rows, tuned = run.rows[-1], [*run.rows], list[EncoderResult]()
    annotator = first_annotator(config, run.texts) or base
    while stop_cycles(tuned, config.cycles).go_on:
        label = f"cycle {len(tuned) + 1}"
        log_progress(f"{label} of at most {config.cycles.max_cycles} (cycles.max_cycles)")
        rows += one_cycle(label, rows[-1], annotator, labels, run.texts, config, on_row)
        annotator = rows[-1]
        tuned.append(rows[-1])
    best = tuned[stop_cycles(tuned, config.cycles).best]
    controls = labels_only(base, labels, run.texts, config, on_row)
    return run.model_copy(
        update={
            "rows": rows,
            "controls": controls,
            "best": rows.index(best),
            "labels": labels.count,
        }
    )


def stop_cycles(tuned: list[EncoderResult], rule: CyclesConfig) -> StoppingDecision:
    """Decide by R@5 on validation whether another cycle follows, and which one is the best."""
    if not tuned:
        return StoppingDecision(best=0, go_on=True, reason="")
    return stopping_decision(
        [recall_at_5(row.scores) for row in tuned],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_cycles - 1,
    )


@flow(name="cycle", flow_run_name="{label}")
def one_cycle(
    label: str,
    base: EncoderResult,
    annotator: EncoderResult,
    labels: Labelled,
    texts: Texts,
    config: InfoCSEPlus,
    on_row: OnRow,
) -> list[EncoderResult]:
    """Return the rounds of self-training, and the best of them fine-tuned."""
    rounds = run_rounds(base, annotator, texts, config, on_row, f"{label}, round")
    best = stop_rounds([base, *rounds], config.rounds).best
    tuned = fine_tuned_encoder(
        f"{label}, fine-tuned", [base, *rounds][best], labels, config.fine_tuning, texts, config
    )
    on_row(tuned)
    return [*rounds, tuned]


def labels_only(
    base: EncoderResult, labels: Labelled, texts: Texts, config: InfoCSEPlus, on_row: OnRow
) -> list[EncoderResult]:
    """Return the control: the same labels without self-training, which shows what cycles add."""
    if not config.control:
        return []
    log_progress(
        "next: the control, the labels alone, to measure what the cycles add "
        "(--set control=false skips it)"
    )
    label = "control: labels only"
    result = fine_tuned_encoder(label, base, labels, config.fine_tuning, texts, config)
    on_row(result)
    return [result.model_copy(update={"kind": "control"})]
