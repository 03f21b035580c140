"""InfoCSE++ (mutual, section 3.3): cycles of self-training and fine-tuning on a few labels."""

from prefect import flow

from flows.fine_tune import fine_tuned_row, labels_of
from flows.infocse_idc import first_annotator, self_train, self_trained, tell
from flows.pipeline import OnRow, run_before_training, run_pipeline, verdict_on_rounds
from sentemb_core.config.run import CyclesConfig, InfoCSEPlus
from sentemb_core.stopping import StoppingDecision, stopping_decision
from tasks.execution import sub_flow
from tasks.report import Outcome
from tasks.run_result import EncoderResult, Labelled, RunResult, Texts
from tasks.validate import recall_at_5


@flow(name="infocse-plus", flow_run_name="{config.name}")
def infocse_plus(config: InfoCSEPlus) -> Outcome:
    """Documents and a few labelled pairs in, a fine-tuned encoder out.

    Args:
        config: The whole run; every setting brings its source.
    """
    return run_pipeline(config, self_train_and_fine_tune)


def self_train_and_fine_tune(config: InfoCSEPlus, watch: OnRow) -> RunResult:
    """Cycle after cycle from the last fine-tuned encoder, until that one stops growing.

    What is returned is always fine-tuned. Without labels or cycles it is InfoCSE.
    """
    if not config.uses_labels:
        return self_train(config, watch)
    run = run_before_training(config, watch)
    labels = labels_of(run.texts, config)
    base, rows, tuned = run.rows[-1], [*run.rows], list[EncoderResult]()
    annotator = first_annotator(config, run.texts) or base
    while verdict_on_tuned(tuned, config.cycles).go_on:
        label = f"cycle {len(tuned) + 1}"
        tell(f"{label} of at most {config.cycles.max_cycles} (cycles.max_cycles)")
        rows += one_cycle(label, rows[-1], annotator, labels, run.texts, config, watch)
        annotator = rows[-1]
        tuned.append(rows[-1])
    best = tuned[verdict_on_tuned(tuned, config.cycles).best]
    controls = labels_only(base, labels, run.texts, config, watch)
    return run.model_copy(
        update={
            "rows": rows,
            "controls": controls,
            "best": rows.index(best),
            "labels": labels.count,
        }
    )


def verdict_on_tuned(tuned: list[EncoderResult], rule: CyclesConfig) -> StoppingDecision:
    """Whether the fine-tuned encoders still grow, and which of them is the best so far."""
    if not tuned:
        return StoppingDecision(best=0, go_on=True, reason="")
    return stopping_decision(
        [recall_at_5(row.scores) for row in tuned],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_cycles - 1,
    )


@sub_flow(name="cycle", flow_run_name="{label}")
def one_cycle(
    label: str,
    base: EncoderResult,
    annotator: EncoderResult,
    labels: Labelled,
    texts: Texts,
    config: InfoCSEPlus,
    watch: OnRow,
) -> list[EncoderResult]:
    """The rounds of self-training, and the best of them fine-tuned."""
    rounds = self_trained(base, annotator, texts, config, watch, f"{label}, round")
    best = verdict_on_rounds([base, *rounds], config.rounds).best
    tuned = fine_tuned_row(
        f"{label}, fine-tuned", [base, *rounds][best], labels, config.fine_tuning, texts, config
    )
    watch(tuned)
    return [*rounds, tuned]


def labels_only(
    base: EncoderResult, labels: Labelled, texts: Texts, config: InfoCSEPlus, watch: OnRow
) -> list[EncoderResult]:
    """The same labels without any self-training: what the cycles are worth."""
    if not config.control:
        return []
    tell(
        "to come, for comparison: the labels alone, to tell what the cycles are worth; "
        "--set control=false leaves them out"
    )
    row = fine_tuned_row("control: labels only", base, labels, config.fine_tuning, texts, config)
    watch(row)
    return [row.model_copy(update={"kind": "control"})]
