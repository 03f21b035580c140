"""One training by any method: prepare, train, validate, publish."""

from flows.pipeline import OnRow, prepare_run, run_pipeline, stop_rounds, trained_encoder
from sentemb_core.config.methods import Condenser
from sentemb_core.config.run import MethodRun, RoundsConfig
from tasks.artifacts import RunResult
from tasks.execution import flow
from tasks.report import Outcome


@flow(name="train-method", flow_run_name="{config.name}")
def train_method(config: MethodRun) -> Outcome:
    """Train an encoder by one method; publish, gate and report the better one.

    Args:
        config: All settings of the run, each with its source.
    """
    return run_pipeline(config, train_once)


def train_once(config: MethodRun, on_row: OnRow) -> RunResult:
    """Return the encoder before and after the method; the better one on validation is the best.

    A Condenser stage is always the best: it trains a head, which retrieval does not measure.
    """
    run = prepare_run(config, on_row)
    base = run.rows[-1]
    label = f"after {config.training.method.name}"
    if label == base.label:  # labels of a run are unique
        label += " again"
    trained = trained_encoder("trained", label, base, config.training, run.texts, config)
    on_row(trained)
    always = isinstance(config.training.method, Condenser)
    better = 1 if always else stop_rounds([base, trained], RoundsConfig()).best
    best = len(run.rows) - 1 + better
    return run.model_copy(update={"rows": [*run.rows, trained], "best": best})
