"""Runs in MLflow as the tracked code sees them: nothing here waits for a server, or raises.

Every parameter, metric and file goes to a local spool first (`spool.py`); a thread of the run
delivers it (`delivery.py`). What could not be delivered when the run ends waits for the next run.
"""

import itertools
import logging
import re
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sentemb_core.redaction import redacted
from sentemb_core.store.locks import file_lock
from sentemb_core.store.objects import Store, checked_name
from tasks.delivery import Sender
from tasks.mlflow_client import server_address
from tasks.spool import Event, Kind, Spool

log = logging.getLogger(__name__)

UNNAMEABLE = re.compile(r"[^\w\-. :/]", re.ASCII)
"""What may not stand in the name of a metric, a parameter or a tag."""

LARGEST = 100
"""Values in one event: MLflow takes no more parameters or tags at once."""


@dataclass(frozen=True)
class TrackedRun:
    """A run, or one child of it."""

    spool: Spool
    sender: Sender
    name: str = ""

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Settings; nested mappings become dotted names."""
        self._tell("params", redacted_texts(values))

    def set_tags(self, values: Mapping[str, Any]) -> None:
        self._tell("tags", redacted_texts(values))

    def log_metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        self._tell("metrics", ((name, float(value)) for name, value in dotted(values)), step)

    def log_artifact(self, path: Path) -> None:
        """A file or a folder, as it is now."""
        try:
            kept = self.spool.keep(path)
        except OSError as error:
            log.warning("%s is not tracked: %s", path, error)
        else:
            self._append(Event(run=self.name, kind="artifact", values={"file": kept}))

    def child(self, name: str) -> "TrackedRun":
        """A run nested in this one; the same one whenever it is asked for by this name.

        A round is `round 1` in Prefect and in a report, and `round-1` in MLflow.
        """
        child = TrackedRun(self.spool, self.sender, plain(name).replace(" ", "-"))
        child.begin(child.name)
        return child

    def begin(self, shown: str) -> None:
        """Say that there is this run, and how MLflow shall call it."""
        self._append(Event(run=self.name, kind="start", values={"name": redacted(shown)}))

    def end(self, status: str) -> None:
        """Say how it ended, and with it its children that are open; its block does that."""
        self._append(Event(run=self.name, kind="end", values={"status": status}))

    @property
    def id(self) -> str | None:
        """MLflow's id, once it was told of the run."""
        return self.spool.sent.ids.get(self.name)

    @property
    def url(self) -> str | None:
        """The run's page, once MLflow was told of it, if a server shows it."""
        base, sent = server_address(self.sender.home), self.spool.sent
        known = base and self.name in sent.ids
        return f"{base}/#/experiments/{sent.experiment}/runs/{self.id}" if known else None

    def _tell(self, kind: Kind, values: Iterable[tuple[str, float | str]], step: int = 0) -> None:
        values = iter(values)
        while part := dict(itertools.islice(values, LARGEST)):
            self._append(Event(run=self.name, kind=kind, values=part, step=step))

    def _append(self, event: Event) -> None:
        try:
            self.spool.append(event)
        except OSError as error:
            log.warning("A tracking event was lost: %s", error)


@contextmanager
def tracked_run(
    name: str,
    *,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Generator[TrackedRun, None, None]:
    """A run that is tracked while the block lasts; its children end with it.

    Args:
        name: Shown in MLflow.
        params: Settings of the run.
        tags: Digests, ids. The id of the Prefect flow run is added.
        key: Names the run for good: a resumed run goes on in the MLflow run of the killed one,
            which had the same key. None: a new run.
    """
    home = Store.default().root
    spool = Spool(home / "spool" / checked_name(key or uuid.uuid4().hex))
    with file_lock(spool.writer_lock):
        spool.folder.mkdir(exist_ok=True)
        spool.mend()
        run = TrackedRun(spool, Sender(home, spool))
        run.begin(name)
        run.log_params(params or {})
        run.set_tags({**(tags or {}), **prefect_ids()})
        with ended(run):
            yield run
        if not spool.remove_if_told():
            log.warning("MLflow was not told all of %s: see %s.", plain(name), spool.folder)


@contextmanager
def ended(run: TrackedRun) -> Generator[None, None, None]:
    """Deliver a run while the block lasts, and its end in any case."""
    run.sender.start()
    status = "FAILED"
    try:
        yield
        status = "FINISHED"
    finally:
        run.end(status)
        run.sender.close()


def prefect_ids() -> dict[str, str]:
    """The Prefect flow run that this code runs in, if any."""
    from prefect.runtime import flow_run

    return {"prefect.flow_run_id": str(flow_run.id)} if flow_run.id else {}


def dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested mappings as dotted names that MLflow allows."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield plain(f"{prefix}{name}"), value


def redacted_texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values as they may be written down."""
    return ((name, redacted(str(value))) for name, value in dotted(values))


@lru_cache  # a training says the same names at every step
def plain(name: str) -> str:
    """A name that MLflow allows and that holds no secret."""
    return UNNAMEABLE.sub("_", redacted(name))[:250]
