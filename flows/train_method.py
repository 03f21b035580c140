"""One training by any method: prepare, train, validate, publish."""

from prefect import flow

from flows.pipeline import (
    OnRow,
    row_after_training,
    run_before_training,
    run_pipeline,
    verdict_on_rounds,
)
from sentemb_core.config.methods import Condenser
from sentemb_core.config.run import MethodRun, RoundsConfig
from tasks.report import Outcome
from tasks.run_result import RunResult


@flow(name="train-method", flow_run_name="{config.name}")
def train_method(config: MethodRun) -> Outcome:
    """Documents in, an encoder trained by one method out: reported, registered, gated.

    Args:
        config: The whole run; every setting brings its source.
    """
    return run_pipeline(config, trained_once)


def trained_once(config: MethodRun, watch: OnRow) -> RunResult:
    """The encoder before and after the method; the better one on validation is kept.

    A Condenser stage's is kept whatever it finds: its head was what it was trained for.
    """
    run = run_before_training(config, watch)
    base = run.rows[-1]
    label = f"after {config.training.method.name}"
    if label == base.label:  # rows are known by their labels
        label += " again"
    after = row_after_training("trained", label, base, config.training, run.texts, config)
    watch(after)
    kept = isinstance(config.training.method, Condenser)
    better = 1 if kept else verdict_on_rounds([base, after], RoundsConfig()).best
    best = len(run.rows) - 1 + better
    return run.model_copy(update={"rows": [*run.rows, after], "best": best})
