"""InfoCSE++ (seed 000, section 3.3): cycles of self-training and fine-tuning on a few labels."""

from prefect import flow

from flows.fine_tune import fine_tuned, labels_of
from flows.infocse_idc import first_annotator, self_train, self_trained
from flows.steps import Watch, begun, judged
from flows.subflow import sub_flow
from sentemb_core.configs import CyclesConfig, InfoCSEPlus
from sentemb_core.stopping import Verdict, verdict
from tasks.finishing import published
from tasks.following import followed
from tasks.publish import Outcome
from tasks.rows import Labelled, Row, SelfTraining, Texts
from tasks.validate import recall_at_5


@flow(name="infocse-plus", flow_run_name="{config.name}")
def infocse_plus(config: InfoCSEPlus) -> Outcome:
    """Documents and a few labelled pairs in, a fine-tuned encoder out.

    Args:
        config: The whole run; every setting brings its source.
    """
    with followed(config) as run:
        return published(self_train_and_fine_tune(config, run), run)


def self_train_and_fine_tune(config: InfoCSEPlus, watch: Watch) -> SelfTraining:
    """Cycle after cycle from the last fine-tuned encoder, until that one stops growing.

    What is returned is always fine-tuned. Without labels or cycles it is InfoCSE.
    """
    if not config.uses_labels:
        return self_train(config, watch)
    run = begun(config, watch)
    labels = labels_of(run.texts, config)
    annotator = first_annotator(config, run.texts) or run.rows[-1]
    rows, ends = [*run.rows], list[int]()
    while grown([rows[end] for end in ends], config.cycles).go_on:
        label = f"cycle {len(ends) + 1}"
        rows += one_cycle(label, rows[-1], annotator, labels, run.texts, config, watch)
        annotator = rows[-1]
        ends.append(len(rows) - 1)
    best = ends[grown([rows[end] for end in ends], config.cycles).best]
    controls = labels_only(run.rows[-1], labels, run.texts, config, watch)
    return run.model_copy(
        update={"rows": rows, "controls": controls, "best": best, "labels": labels.count}
    )


def grown(tuned: list[Row], rule: CyclesConfig) -> Verdict:
    """Whether the fine-tuned encoders still grow, and which of them is the best so far."""
    if not tuned:
        return Verdict(best=0, go_on=True, reason="")
    return verdict(
        [recall_at_5(row.scores) for row in tuned],
        patience=rule.patience,
        min_delta=rule.min_delta,
        limit=rule.max_cycles - 1,
    )


@sub_flow(name="cycle", flow_run_name="{label}")
def one_cycle(
    label: str,
    base: Row,
    annotator: Row,
    labels: Labelled,
    texts: Texts,
    config: InfoCSEPlus,
    watch: Watch,
) -> list[Row]:
    """The rounds of self-training, and the best of them fine-tuned."""
    rounds = self_trained(base, annotator, texts, config, watch, f"{label}, round")
    best = judged([base, *rounds], config.rounds).best
    tuned = fine_tuned(
        f"{label}, fine-tuned", [base, *rounds][best], labels, config.fine_tuning, texts, config
    )
    watch(tuned)
    return [*rounds, tuned]


def labels_only(
    base: Row, labels: Labelled, texts: Texts, config: InfoCSEPlus, watch: Watch
) -> list[Row]:
    """The same labels without any self-training: what the cycles are worth."""
    if not config.control:
        return []
    row = fine_tuned("control: labels only", base, labels, config.fine_tuning, texts, config)
    watch(row)
    return [row.model_copy(update={"kind": "control"})]
