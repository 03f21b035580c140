"""The tracking events of a run: buffered in a local file, and delivered to MLflow in batches.

spool/<run>/events.jsonl     one sealed event per line, in order
spool/<run>/sent.json        how many bytes were delivered, and MLflow's ids of the runs
spool/<run>/files/           copies of artifacts that are not delivered yet
spool/<run>/delivery.lock    held during a delivery
spool/<run>.lock             held while the run is alive, or while its spool may be removed
spool/rejected.txt           events that MLflow refused for good, or broken lines, with the reason

A run is found by its tag. Of each metric and step, only the first point is delivered. So an
interrupted delivery can be repeated, and a resumed run may log its rows again.
"""

import hashlib
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from sentemb_core.errors import BrokenFileError
from sentemb_core.redaction import first_line
from sentemb_core.store import disk
from sentemb_core.store.locks import file_lock, is_locked
from sentemb_core.store.seals import canonical, sealed, unsealed
from sentemb_core.types import Value
from tasks.servers import address_of, experiment_id, mlflow_client

if TYPE_CHECKING:
    from mlflow.entities import Metric

log = logging.getLogger(__name__)

Point = tuple[str, int]
"""Name and step of a metric."""

Kind = Literal["start", "params", "tags", "metrics", "artifact", "end", "broken"]
"""Kinds of events; `broken` stands for a damaged line, which no tracker gets."""

RUN_TAG = "sentemb.run"

BATCH = 1000
"""Metric points in one call: MLflow's own limit."""

INTERVAL = 2.0
"""Seconds between two deliveries; doubled after each failure, up to a minute."""

PATIENCE = 10.0
"""Seconds that the end of a run waits for the last delivery."""

REFUSALS = {
    "BAD_REQUEST",
    "INVALID_PARAMETER_VALUE",
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
}
"""Error codes of final refusals; any other failure may pass."""

DELETED = "must be in the 'active' state"
"""Part of MLflow's error for a run that a person deleted; its code is that of a refusal."""

PASSING = {408, 429}
"""HTTP statuses of a server that was too slow or busy for a file; other 4xx are final."""

LATER = "MLflow is unreachable; events are buffered locally: %s"


class Event(Value):
    """One tracking event of a run or of one of its children."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    run: str = Field(description="Name of the child; empty for the run itself.")
    kind: Kind
    values: dict[str, float | str]
    step: int = 0
    at: int = Field(default_factory=lambda: time.time_ns() // 1_000_000, description="Unix ms.")


class Sent(Value):
    """How much of a spool was delivered, and to which tracker."""

    tracker: str = Field(default="", description="Its address; the ids below are its own.")
    offset: int = 0
    experiment: str = ""
    ids: dict[str, str] = Field(
        default={}, description="The tracker's ids of the run and its children."
    )


class Spool:
    """The events of one run. One process writes them; another may deliver the rest after a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder.parents[1]
        self.events = folder / "events.jsonl"
        self.writer_lock = folder.parent / f"{folder.name}.lock"
        self.delivery_lock = folder / "delivery.lock"
        self.delivered: dict[str, set[Point]] = {}  # by MLflow's ids of the runs
        self._appending = threading.Lock()

    def append(self, event: Event) -> None:
        """Add one event. It survives a kill at once, and a power cut after `sync`.

        If the disk refuses it (OSError), a partial line is removed.
        """
        line = sealed(json.loads(event.model_dump_json())) + b"\n"  # NaN becomes a string
        with self._appending:
            end = self.size
            try:
                with self.events.open("ab") as file:
                    file.write(line)
            except OSError:
                with suppress(OSError):
                    os.truncate(self.events, end)
                raise

    def mend(self) -> None:
        """Remove a partial line that a killed process left.

        If a power cut took events that were delivered, all events are delivered again.
        """
        if self.events.exists():
            os.truncate(self.events, self.events.read_bytes().rfind(b"\n") + 1)
            if (sent := self.sent).offset > self.size:
                self.mark(sent.model_copy(update={"offset": 0}))

    def sync(self) -> None:
        """Sync all events to the disk, if it takes them."""
        with suppress(OSError), self.events.open("rb") as file:
            os.fsync(file.fileno())

    @property
    def size(self) -> int:
        return self.events.stat().st_size if self.events.exists() else 0

    def after(self, offset: int) -> Iterator[tuple[int, Event]]:
        """Yield the events from an offset on, each with the offset after it.

        A damaged line, or one of an earlier version, is an event `broken` with the line and why.
        """
        if not self.events.exists():
            return
        with self.events.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):  # it is still being written
                    return
                offset += len(line)
                try:
                    event = Event.model_validate(unsealed(line))
                except ValueError as error:
                    text = line.decode(errors="replace").strip()
                    values: dict[str, float | str] = {"line": text, "why": first_line(error)}
                    event = Event(run="", kind="broken", values=values)
                yield offset, event

    @property
    def sent(self) -> Sent:
        try:
            return Sent.model_validate(unsealed((self.folder / "sent.json").read_bytes()))
        except (FileNotFoundError, ValueError):  # torn or damaged: deliver all again
            return Sent()

    def mark(self, sent: Sent) -> None:
        """Write `sent.json` atomically."""
        draft = self.folder / f"sent-{uuid.uuid4().hex}"
        disk.write(draft, sealed(sent.model_dump(mode="json")))
        draft.replace(self.folder / "sent.json")

    def keep(self, path: Path) -> dict[str, float | str]:
        """Copy a file or folder, which may change before its delivery.

        Returns the values of its event: the relative path and a SHA-256 of the copy.
        """
        place = self.folder / "files" / uuid.uuid4().hex / path.name
        place.parent.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, place)
        else:
            shutil.copy2(path, place)
        return {"file": place.relative_to(self.folder).as_posix(), "sha256": digest_of(place)}

    def forget(self, kept: str) -> None:
        shutil.rmtree((self.folder / kept).parent, ignore_errors=True)

    def reject(self, event: Event, reason: str) -> None:
        """Record an event that MLflow never takes, so that the next ones are delivered."""
        with (self.folder.parent / "rejected.txt").open("a", encoding="utf-8") as file:
            file.write(f"{self.folder.name}\t{event.model_dump_json()}\t{reason}\n")

    def remove_if_delivered(self) -> bool:
        """Remove the spool if all events are delivered; return whether they are."""
        delivered = self.sent.offset == self.size
        if delivered:
            shutil.rmtree(self.folder, ignore_errors=True)
        return delivered


class Sender:
    """The thread that delivers the spool of a run while it runs."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._closing = threading.Event()
        self._late = threading.Event()
        self._failing = self._synced = False
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Deliver a last time, for a limited time; the next run delivers the rest."""
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
            deliver(self.spool, self._late)
            if not self._closing.is_set() and not self._synced:
                self._synced = True
                sync(self.spool.home)
        except Exception as error:  # a failing tracker must not stop the training
            log.log(logging.DEBUG if self._failing else logging.WARNING, LATER, first_line(error))
            self._failing = True
        else:
            self._failing = False
        return not self._failing


def sync(home: Path) -> int:
    """Deliver the spools of earlier runs; return how many are still incomplete.

    A killed run gets the status KILLED. Live runs deliver their own spools.
    """
    waiting = 0
    for folder in sorted(path.parent for path in (home / "spool").glob("*/events.jsonl")):
        spool = Spool(folder)
        if is_locked(spool.writer_lock):
            continue
        with file_lock(spool.writer_lock):
            if not spool.events.exists():  # another process has delivered it
                continue
            spool.mend()
            if not has_ended(spool):
                spool.append(Event(run="", kind="end", values={"status": "KILLED"}))
            try:
                deliver(spool)
            except Exception as error:
                log.warning(LATER, first_line(error))
            waiting += not spool.remove_if_delivered()
    return waiting


def has_ended(spool: Spool) -> bool:
    """Whether the run has logged its end since its last start."""
    own = [event.kind for _, event in spool.after(0) if event.run == ""]
    return [kind for kind in own if kind in ("start", "end")][-1:] == ["end"]


def deliver(spool: Spool, late: threading.Event | None = None) -> None:
    """Deliver all new events batch by batch, until `late` is set.

    A lock allows one delivery at a time: an earlier process may still send its last batch. If
    MLflow is unreachable, the next delivery continues after the last batch.
    """
    if not spool.events.exists():
        return
    with file_lock(spool.delivery_lock):
        begin_with(spool, address_of(spool.home))
        for offset, events in batches(spool.after(spool.sent.offset)):
            if late and late.is_set():
                return
            try:
                deliver_batch(spool, events)
            except Exception as error:
                if DELETED in str(error):
                    restore(spool)
                elif not is_refusal(error, events[0].kind):
                    raise
                deliver_one_by_one(spool, events)
            spool.mark(spool.sent.model_copy(update={"offset": offset}))


def begin_with(spool: Spool, tracker: str) -> None:
    """Continue where the delivery to this tracker ended; start again for another tracker."""
    sent = spool.sent
    if sent.tracker and sent.tracker != tracker:
        log.warning("The run began in %s; all of it goes to %s.", sent.tracker, tracker)
        spool.delivered.clear()
        sent = Sent()
    if sent.tracker != tracker:
        spool.mark(sent.model_copy(update={"tracker": tracker}))


def batches(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, list[Event]]]:
    """Yield batches with their end offsets: metrics of one run together, other events alone."""
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


def deliver_one_by_one(spool: Spool, events: list[Event]) -> None:
    """Deliver the events of a refused batch one by one; reject those that are refused again."""
    for event in events:
        try:
            deliver_batch(spool, [event])
        except Exception as error:
            if not is_refusal(error, event.kind):
                raise
            log.warning("An event (%s) never reaches MLflow: %s", event.kind, first_line(error))
            spool.reject(event, first_line(error))


def is_refusal(error: Exception, kind: Kind) -> bool:
    """Whether MLflow refuses the event for good, so that it would block all later ones.

    Files fail without MLflow's codes: a proxy refuses large ones (413), or their storage needs a
    library that is not installed (boto3 for S3).
    """
    if DELETED in str(error):
        return False
    if isinstance(error, BrokenFileError):
        return True
    if kind != "artifact" or hasattr(error, "error_code"):
        return getattr(error, "error_code", None) in REFUSALS
    status = getattr(getattr(error, "response", None), "status_code", 0)
    return isinstance(error, ImportError) or (400 <= status < 500 and status not in PASSING)


def deliver_batch(spool: Spool, events: list[Event]) -> None:
    """Deliver one batch: events of one run and one kind."""
    from mlflow.entities import Param, RunTag

    first = events[0]
    if first.kind == "broken":
        raise BrokenFileError(
            f"A line of {spool.events} is damaged, or an earlier version wrote it: "
            f"{first.values['why']}. It is kept in {spool.folder.parent / 'rejected.txt'}."
        )
    client, run = mlflow_client(spool.home), known_run(spool, first)
    texts = [(name, str(value)) for name, value in first.values.items()]
    match first.kind:
        case "metrics":
            delivered = delivered_points(client, spool, run)
            points = new_points(events, delivered)
            client.log_batch(run, metrics=list(points.values()))
            delivered.update(points)
        case "params":
            client.log_batch(run, params=[Param(*pair) for pair in texts])
        case "tags":
            client.log_batch(run, tags=[RunTag(*pair) for pair in texts])
        case "artifact":
            upload(client, spool, run, first)
        case "end":
            terminate(client, spool, run, first)
        case "start":
            if client.get_run(run).info.status != "RUNNING":
                client.update_run(run, status="RUNNING")  # a resumed run


def restore(spool: Spool) -> None:
    """Restore what a person deleted during the run: our experiment, the run or its children."""
    client, _ = mlflow_client(spool.home), experiment_id(spool.home)
    for run in spool.sent.ids.values():
        if client.get_run(run).info.lifecycle_stage == "deleted":
            client.restore_run(run)


def new_points(events: list[Event], delivered: set[Point]) -> "dict[Point, Metric]":
    """The points that MLflow does not have yet; a resumed run logs its first rows again.

    The first point of a metric and step counts: a cached row has the seconds of its computation.
    """
    from mlflow.entities import Metric

    points: dict[Point, Metric] = {}
    for event in events:
        for name, value in event.values.items():
            if (name, event.step) not in delivered:
                point = Metric(name, float(value), event.at, event.step)
                points.setdefault((name, event.step), point)
    return points


def delivered_points(client: Any, spool: Spool, run: str) -> set[Point]:
    """The points that MLflow has of a run: read once, then kept up to date."""
    if run not in spool.delivered:
        spool.delivered[run] = {
            (name, point.step)
            for name in client.get_run(run).data.metrics
            for point in client.get_metric_history(run, name)
        }
    return spool.delivered[run]


def upload(client: Any, spool: Spool, run: str, event: Event) -> None:
    """Upload a kept file or folder, if it is what was kept (else BrokenFileError)."""
    kept = str(event.values["file"])
    path = spool.folder / kept
    if path.exists() and digest_of(path) != event.values.get("sha256"):
        raise BrokenFileError(f"{path} is damaged: it has not the SHA-256 of its event.")
    if path.is_dir():
        client.log_artifacts(run, path, path.name)
    elif path.exists():  # absent if it was sent just before a kill
        client.log_artifact(run, path)
    spool.forget(kept)


def digest_of(path: Path) -> str:
    """Return a SHA-256 over the names and bytes of a file, or of all files in a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    named = [(file.relative_to(path.parent).as_posix(), disk.sha256(file)) for file in files]
    return hashlib.sha256(canonical(named)).hexdigest()


def terminate(client: Any, spool: Spool, run: str, event: Event) -> None:
    """Set the final status of a run; the whole run also ends its open children."""
    for child in () if event.run else spool.sent.ids.values():
        if child != run and client.get_run(child).info.status == "RUNNING":
            client.set_terminated(child, str(event.values["status"]), end_time=event.at)
    client.set_terminated(run, str(event.values["status"]), end_time=event.at)


def known_run(spool: Spool, event: Event) -> str:
    """MLflow's id of an event's run: found by its tag, or created after its parent."""
    sent = spool.sent
    if event.run in sent.ids:
        return sent.ids[event.run]
    tags = {RUN_TAG: f"{spool.folder.name}/{event.run}", "mlflow.source.type": "JOB"}
    if event.run:
        parent = known_run(spool, event.model_copy(update={"run": ""}))
        tags["mlflow.parentRunId"] = parent
    client, experiment = mlflow_client(spool.home), experiment_id(spool.home)
    if found := client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{tags[RUN_TAG]}'"):
        run = found[0].info.run_id
        client.update_run(run, status="RUNNING")
    else:
        name = str(event.values.get("name", event.run))
        run = client.create_run(experiment, event.at, tags, run_name=name).info.run_id
    ids = {**spool.sent.ids, event.run: run}
    spool.mark(spool.sent.model_copy(update={"ids": ids, "experiment": experiment}))
    return run
