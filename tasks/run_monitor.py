"""A run while it goes on: its record, its tracker, and the growing table of its encoders."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from sentemb_core.config.run import RunConfig
from sentemb_core.redaction import WithoutSecrets
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import RunLog, recording
from sentemb_core.types import ArtifactRef, Json, StageTiming
from tasks.artifacts import EncoderResult
from tasks.checks import check_run
from tasks.execution import setting
from tasks.prefect_pages import rounds_table
from tasks.run_table import seconds_of
from tasks.tracking import TrackedRun, tracked_run
from tasks.validate import numbers_of_annotation, scores_of

log = logging.getLogger("sentemb_core.run")

VALIDATED = (
    "Encoders on the validation split, which chooses the best one: recall from document to "
    "counterpart; `reverse` is from counterpart to document. The report has the test split."
)


@dataclass
class RunMonitor:
    """Log, track and show every encoder of a run as soon as it is validated (an `OnRow`)."""

    config: RunConfig
    record: RunLog
    tracker: TrackedRun
    table: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    timings: list[StageTiming] = field(default_factory=list[StageTiming])

    def __call__(self, row: EncoderResult) -> None:
        """Report one encoder; the stages since the last one are its cost."""
        self.add_timings(row.label)
        annotation = numbers_of_annotation(row)
        cost = seconds_of(self.timings, row.label)
        line = table_row(row, annotation.get("kept_share"), cost)
        text = ", ".join(f"{name} {value}" for name, value in line.items() if value)
        log.info("on the validation split: %s", text)
        self.table.append(line)
        metrics = metrics_of(row.scores)
        metrics |= {f"annotation/{name}": value for name, value in annotation.items()}
        child = self.tracker.child(row.label)
        child.log_metrics(metrics | {"seconds": cost}, step=len(self.table) - 1)
        child.set_tags({"encoder": row.encoder.digest, "scores": row.scores.digest})
        rounds_table(self.record.run.id, self.table, VALIDATED)

    def add_timings(self, label: str) -> None:
        """Note the stages since the last row as the cost of what has this label."""
        self.timings += [
            StageTiming(stage=used.stage, round=label, seconds=used.seconds, hit=used.hit)
            for used in self.record.used[len(self.timings) :]
        ]


def table_row(row: EncoderResult, kept_share: float | None, seconds: float) -> dict[str, str]:
    """One row of the table; the share of pairs is empty without an annotation."""
    scores = scores_of(row.scores)["validation"]
    forward, reverse = scores.document_to_counterpart, scores.counterpart_to_document
    return {
        "encoder": row.label,
        "R@1": f"{forward.recall_at_1:.3f}",
        "R@5": f"{forward.recall_at_5:.3f}",
        "R@10": f"{forward.recall_at_10:.3f}",
        "R@20": f"{forward.recall_at_20:.3f}",
        "R@5 reverse": f"{reverse.recall_at_5:.3f}",
        "pairs kept": "" if kept_share is None else f"{kept_share:.3f}",
        "seconds": f"{seconds:.0f}",
    }


def metrics_of(ref: ArtifactRef) -> dict[str, float]:
    """Scores on every split in both directions, under the names of MLflow's metrics."""
    return {
        f"{split}/{way}/{name}": value
        for split, scores in scores_of(ref).items()
        for way, values in scores.model_dump(exclude={"split"}).items()
        for name, value in values.items()
    }


_monitor: ContextVar[RunMonitor | None] = ContextVar("monitor", default=None)
_resumed: ContextVar[str | None] = ContextVar("resumed", default=None)


def resuming(run_id: str | None) -> AbstractContextManager[None]:
    """In this block a flow continues the run of this id: one record, MLflow run and report.

    The first run of the block continues it; None: all runs are new.
    """
    return setting(_resumed, run_id)


def redact_prefect_logs() -> None:
    """Remove secrets from what Prefect prints and sends to its server, from now on.

    Its engine logs an error with all causes, which may hold the address of a tracker.
    """
    for name in (None, *logging.root.manager.loggerDict):
        for handler in logging.getLogger(name).handlers:
            ours = isinstance(handler.formatter, WithoutSecrets)
            if type(handler).__module__.startswith("prefect.") and not ours:
                handler.setFormatter(WithoutSecrets(handler.formatter or logging.Formatter()))


@contextmanager
def recorded(name: str, settings: Json) -> Generator[RunLog, None, None]:
    """Record the run of this block, under the id of the resumed run or a new one."""
    redact_prefect_logs()
    resumed = _resumed.get()
    _resumed.set(None)
    run_id = resumed or f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    command = ["python", "-m", "flows", "resume", run_id]
    with recording(Store.default(), run_id, command, settings, resumed=bool(resumed)) as record:
        yield record


@contextmanager
def monitored_run(config: RunConfig) -> Generator[RunMonitor, None, None]:
    """Check, record and track the run of this block; a resumed run continues its MLflow run.

    The check comes before the record: the run of a deployment has not been checked before.
    """
    check_run(config)
    logging.getLogger("sentemb_core").setLevel(logging.INFO)  # in a worker's process too
    settings = config.model_dump(mode="json")
    with (
        recorded(config.name, settings) as record,
        tracked_run(
            config.name,
            params=settings,
            tags={"run": record.run.id},
            key=record.run.id,
        ) as run,
    ):
        monitor = RunMonitor(config, record, run)
        with setting(_monitor, monitor):
            yield monitor


def step_logger() -> Callable[[int, Mapping[str, float]], None]:
    """A function that tracks a training's steps in the MLflow run of its sub-flow."""
    monitor = _monitor.get()
    if monitor is None:
        return lambda step, metrics: None
    from prefect.runtime import flow_run

    child = monitor.tracker.child(flow_run.name or "training")
    return lambda step, metrics: child.log_metrics(
        {f"training/{name}": value for name, value in metrics.items()}, step
    )
