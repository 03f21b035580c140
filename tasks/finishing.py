"""The end of a run: its best encoder published, registered and judged, its report, its record."""

import logging

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import SentembError
from tasks.gate import landed
from tasks.prefect_pages import link, markdown
from tasks.publish import Outcome, best_encoder, stored_outcome
from tasks.run_monitor import RunMonitor, metrics_of
from tasks.run_report import report_folder, write_report_of
from tasks.run_result import RunResult
from tasks.verdict import verdict_of

log = logging.getLogger("sentemb_core.run")


def published(training: RunResult, run: RunMonitor) -> Outcome:
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
            "benchmark": training.texts.validation_pool.digest,
            "verdict": verdict,
        }
    )
    if address := run.tracker.url:
        link(f"{run_id}-mlflow", address, "This run in MLflow")
    markdown(f"{run_id}-report", f"{verdict}\n\nReport: `{page}`", "What the run came to")
    log.info("%s", verdict)
    return outcome


def landed_or_reported(outcome: Outcome, config: RunConfig) -> Outcome:
    """With what the registry and the gate say; if they fail, that costs nobody the report.

    Raises:
        SentembError: MLflow cannot be reached, its disk is full, its champion cannot be opened.
            `resume` asks again, and the report then has its word, too.
    """
    try:
        landing = landed(config, outcome.training, outcome.encoder, outcome.run)
    except SentembError:
        note = (
            "The encoder is not registered, or not judged, for an error broke that off: "
            f"`python -m flows resume {outcome.run}` goes on with it."
        )
        write_report_of(outcome, config, note)
        raise
    return outcome.model_copy(update={"landing": landing})
