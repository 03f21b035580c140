"""The end of a run: its best encoder published, registered and judged, its report, its record."""

import logging

from sentemb_core.configs import RunConfig
from sentemb_core.errors import RegistryError, StorageError
from tasks.artifacts import link, markdown
from tasks.following import Following, metrics_of
from tasks.gating import landed
from tasks.publish import Outcome, best_encoder, stored_outcome
from tasks.rows import SelfTraining
from tasks.run_report import report_folder, write_report_of
from tasks.verdict import verdict_of

log = logging.getLogger("sentemb_core.run")


def published(training: SelfTraining, run: Following) -> Outcome:
    """Publish, register and report a finished loop."""
    config, run_id = run.config, run.record.run.id
    outcome = Outcome(
        run=run_id,
        training=training,
        encoder=best_encoder(training, config),
        report=str(report_folder(run_id) / "report.html"),
        landing=None,
        timings=run.timings,
    )
    if config.register_model:
        outcome = landed_or_reported(outcome, config)
    page = write_report_of(outcome, config)
    run.record.update(outputs=[stored_outcome(outcome), outcome.encoder])
    verdict = verdict_of(outcome)
    run.tracker.log_artifact(page.parent)
    run.tracker.log_metrics(metrics_of(training.rows[training.best]))
    run.tracker.set_tags(
        {
            "encoder": outcome.encoder.digest,
            "documents": training.texts.documents.digest,
            "benchmark": training.texts.benchmark.digest,
            "verdict": verdict,
        }
    )
    if address := run.tracker.url:
        link(f"{run_id}-mlflow", address, "This run in MLflow")
    markdown(f"{run_id}-report", f"{verdict}\n\nReport: `{page}`", "What the run came to")
    log.info("%s", verdict)
    return outcome


def landed_or_reported(outcome: Outcome, config: RunConfig) -> Outcome:
    """With what the registry and the gate say; a registry that fails costs nobody the report.

    Raises:
        RegistryError, StorageError: MLflow cannot be reached, or its disk is full. `resume` asks it
            again, and the report then has its word, too.
    """
    try:
        landing = landed(config, outcome.training, outcome.encoder, outcome.run)
    except (RegistryError, StorageError):
        note = (
            "The encoder is not registered, for the registry could not be used: "
            f"`python -m flows resume {outcome.run}` asks it again."
        )
        write_report_of(outcome, config, note)
        raise
    return outcome.model_copy(update={"landing": landing})
