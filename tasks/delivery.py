"""Spools brought to MLflow: in batches, in order, and never one point twice.

A run is found again by its tag, and of each name and step MLflow is told the first point alone: so
a sending that was cut off anywhere can be repeated, and a resumed run may say all its rows again.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core.redaction import first_line
from sentemb_core.store.locks import file_lock, is_locked
from tasks.mlflow_client import address_of, experiment_id, mlflow_client
from tasks.spool import Event, Kind, Point, Sent, Spool

if TYPE_CHECKING:
    from mlflow.entities import Metric

log = logging.getLogger(__name__)

RUN_TAG = "sentemb.run"

BATCH = 1000
"""Metric points in one call: MLflow's own limit."""

INTERVAL = 2.0
"""Seconds between two sendings; doubled after each failure, up to a minute."""

PATIENCE = 10.0
"""Seconds that the end of a run waits for the tracker."""

REFUSALS = {
    "BAD_REQUEST",
    "INVALID_PARAMETER_VALUE",
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
}
"""Codes of a tracker that will say no for ever; any other failure may pass."""

DELETED = "must be in the 'active' state"
"""What MLflow says, with the code of a refusal, of a run that a person deleted."""

PASSING = {408, 429}
"""Statuses of a server that was too slow or too busy for a file; others of 4xx are for ever."""


class Sender:
    """The thread that delivers the spool of a run while it goes on."""

    def __init__(self, home: Path, spool: Spool) -> None:
        self.home = home
        self.spool = spool
        self._closing = threading.Event()
        self._late = threading.Event()
        self._failing = self._synced = False
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Try a last time, for a bounded time; what is late is left to the next run."""
        self.spool.sync()
        self._closing.set()
        self._thread.join(PATIENCE)
        self._late.set()

    def _work(self) -> None:
        pause, last = 0.0, False
        while not last:
            last = self._closing.wait(pause)
            delivered = self._attempt()
            pause = INTERVAL if delivered else min(max(2 * pause, INTERVAL), 60.0)

    def _attempt(self) -> bool:
        try:
            deliver(self.spool, self.home, self._late)
            if not self._closing.is_set() and not self._synced:
                self._synced = True
                sync(self.home)
        except Exception as error:  # whatever the tracker does, the training goes on
            log.log(logging.DEBUG if self._failing else logging.WARNING, LATER, first_line(error))
            self._failing = True
        else:
            self._failing = False
        return not self._failing


LATER = "MLflow cannot be told now, the run's spool keeps everything: %s"


def sync(home: Path) -> int:
    """Deliver what earlier runs could not; returns how many spools still wait.

    A run that died is closed as KILLED. Runs that are alive deliver for themselves.
    """
    waiting = 0
    for folder in sorted(path.parent for path in (home / "spool").glob("*/events.jsonl")):
        spool = Spool(folder)
        if is_locked(spool.writer_lock):
            continue
        with file_lock(spool.writer_lock):
            if not spool.events.exists():  # another process was quicker
                continue
            spool.mend()
            if not has_ended(spool):
                spool.append(Event(run="", kind="end", values={"status": "KILLED"}))
            try:
                deliver(spool, home)
            except Exception as error:
                log.warning(LATER, first_line(error))
            waiting += not spool.remove_if_told()
    return waiting


def has_ended(spool: Spool) -> bool:
    """Whether the run came to its end, however that was, since it last began."""
    own = [event.kind for _, event in spool.after(0) if event.run == ""]
    return [kind for kind in own if kind in ("start", "end")][-1:] == ["end"]


def deliver(spool: Spool, home: Path, late: threading.Event | None = None) -> None:
    """Tell the tracker all that it was not told yet, remembering each step, until it is late.

    One at a time: a sender that its run did not wait for may still be at its last batch.

    Raises:
        Exception: the tracker is not there; the next attempt goes on where this one ended.
    """
    if not spool.events.exists():
        return
    with file_lock(spool.teller_lock):
        begin_with(spool, address_of(home))
        for offset, events in batches(spool.after(spool.sent.offset)):
            if late and late.is_set():
                return
            try:
                tell(spool, home, events)
            except Exception as error:
                if DELETED in str(error):
                    restore(spool, home)
                elif not is_refusal(error, events[0].kind):
                    raise
                tell_one_by_one(spool, home, events)
            spool.mark(spool.sent.model_copy(update={"offset": offset}))


def begin_with(spool: Spool, tracker: str) -> None:
    """Go on where this tracker was told to; from the first event on where another one was."""
    sent = spool.sent
    if sent.tracker and sent.tracker != tracker:
        log.warning("A run was begun in %s; %s is told all of it.", sent.tracker, tracker)
        spool.told.clear()
        sent = Sent()
    if sent.tracker != tracker:
        spool.mark(sent.model_copy(update={"tracker": tracker}))


def batches(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, list[Event]]]:
    """Successive metrics of one run as one batch, every other event by itself; with its end."""
    batch: list[Event] = []
    end = points = 0
    for offset, event in events:
        joins = batch and event.kind == batch[0].kind == "metrics" and event.run == batch[0].run
        if batch and not (joins and points + len(event.values) <= BATCH):
            yield end, batch
            batch, points = [], 0
        batch.append(event)
        end, points = offset, points + len(event.values)
    if batch:
        yield end, batch


def tell_one_by_one(spool: Spool, home: Path, events: list[Event]) -> None:
    """Deliver what can be delivered of a batch that was refused; set the rest aside."""
    for event in events:
        try:
            tell(spool, home, [event])
        except Exception as error:
            if not is_refusal(error, event.kind):
                raise
            log.warning("MLflow refuses %s of a run: %s", event.kind, first_line(error))
            spool.reject(event, first_line(error))


def is_refusal(error: Exception, kind: Kind) -> bool:
    """Whether an event of this kind fails so for ever, and would block all that come after it.

    Files have ways of their own, without MLflow's codes: a proxy takes none so large (413), or the
    place where they lie wants a library that is not here (S3 and boto3).
    """
    if DELETED in str(error):
        return False
    if kind != "artifact" or hasattr(error, "error_code"):
        return getattr(error, "error_code", None) in REFUSALS
    status = getattr(getattr(error, "response", None), "status_code", 0)
    return isinstance(error, ImportError) or (400 <= status < 500 and status not in PASSING)


def tell(spool: Spool, home: Path, events: list[Event]) -> None:
    """One batch, all of one run and one kind."""
    from mlflow.entities import Param, RunTag

    client, run = mlflow_client(home), known_run(spool, home, events[0])
    first = events[0]
    match first.kind:
        case "metrics":
            told = points_told(client, spool, run)
            points = fresh_points(events, told)
            client.log_batch(run, metrics=list(points.values()))
            told.update(points)
        case "params":
            client.log_batch(run, params=[Param(*pair) for pair in texts(first)])
        case "tags":
            client.log_batch(run, tags=[RunTag(*pair) for pair in texts(first)])
        case "artifact":
            upload(client, spool, run, str(first.values["file"]))
        case "end":
            terminate(client, spool, run, first)
        case "start":
            if client.get_run(run).info.status != "RUNNING":
                client.update_run(run, status="RUNNING")  # it goes on where it was stopped


def restore(spool: Spool, home: Path) -> None:
    """Bring back what a person deleted while it was told: our experiment, a run or its children."""
    client, _ = mlflow_client(home), experiment_id(home)
    for run in spool.sent.ids.values():
        if client.get_run(run).info.lifecycle_stage == "deleted":
            client.restore_run(run)


def fresh_points(events: list[Event], told: set[Point]) -> "dict[Point, Metric]":
    """What MLflow does not have yet. A resumed run says again what it did before it was stopped.

    The first point stays: a row that comes from the cache again cost its seconds before.
    """
    from mlflow.entities import Metric

    points: dict[Point, Metric] = {}
    for event in events:
        for name, value in event.values.items():
            if (name, event.step) not in told:
                point = Metric(name, float(value), event.at, event.step)
                points.setdefault((name, event.step), point)
    return points


def points_told(client: Any, spool: Spool, run: str) -> set[Point]:
    """What MLflow has of a run: asked once, then counted along."""
    if run not in spool.told:
        spool.told[run] = {
            (name, point.step)
            for name in client.get_run(run).data.metrics
            for point in client.get_metric_history(run, name)
        }
    return spool.told[run]


def texts(event: Event) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in event.values.items()]


def upload(client: Any, spool: Spool, run: str, kept: str) -> None:
    path = spool.folder / kept
    if path.is_dir():
        client.log_artifacts(run, path, path.name)
    elif path.exists():  # gone if it was sent, but that was not remembered
        client.log_artifact(run, path)
    spool.forget(kept)


def terminate(client: Any, spool: Spool, run: str, event: Event) -> None:
    """End a run; with the whole run, its children that are still open."""
    for child in () if event.run else spool.sent.ids.values():
        if child != run and client.get_run(child).info.status == "RUNNING":
            client.set_terminated(child, str(event.values["status"]), end_time=event.at)
    client.set_terminated(run, str(event.values["status"]), end_time=event.at)


def known_run(spool: Spool, home: Path, event: Event) -> str:
    """The tracker's id of an event's run, which is found by its tag or made, after its parent."""
    sent = spool.sent
    if event.run in sent.ids:
        return sent.ids[event.run]
    tags = {RUN_TAG: f"{spool.folder.name}/{event.run}", "mlflow.source.type": "JOB"}
    if event.run:
        parent = known_run(spool, home, event.model_copy(update={"run": ""}))
        tags["mlflow.parentRunId"] = parent
    client, experiment = mlflow_client(home), experiment_id(home)
    if found := client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{tags[RUN_TAG]}'"):
        run = found[0].info.run_id
        client.update_run(run, status="RUNNING")
    else:
        name = str(event.values.get("name", event.run))
        run = client.create_run(experiment, event.at, tags, run_name=name).info.run_id
    ids = {**spool.sent.ids, event.run: run}
    spool.mark(spool.sent.model_copy(update={"ids": ids, "experiment": experiment}))
    return run
