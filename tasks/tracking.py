"""The MLflow run of a flow: logging to it never waits for a server, and never raises.

Parameters, metrics and files go to a local spool first. A thread of the run delivers them
(`delivery.py`). The next run delivers what is left when a run ends.
"""

import itertools
import logging
import re
import sys
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
from tasks.delivery import Event, Kind, Sender, Spool
from tasks.servers import server_address

log = logging.getLogger(__name__)

UNNAMEABLE = re.compile(r"[^\w\-. :/]", re.ASCII)
"""Characters that MLflow does not allow in the name of a metric, parameter or tag."""

LARGEST = 100
"""Values per event: MLflow takes at most so many parameters or tags at once."""


@dataclass(frozen=True)
class TrackedRun:
    """A run, or one child of it."""

    spool: Spool
    sender: Sender
    name: str = ""

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Log settings; nested mappings become dotted names."""
        self._log("params", redacted_texts(values))

    def set_tags(self, values: Mapping[str, Any]) -> None:
        self._log("tags", redacted_texts(values))

    def log_metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        self._log("metrics", ((name, float(value)) for name, value in dotted(values)), step)

    def log_artifact(self, path: Path) -> None:
        """Log a file or folder as it is now."""
        try:
            kept = self.spool.keep(path)
        except OSError as error:
            log.warning("%s is not tracked: %s", path, error)
        else:
            self.append(Event(run=self.name, kind="artifact", values=kept))

    def child(self, name: str) -> "TrackedRun":
        """Return the nested run of this name, always the same one.

        A round is `round 1` in Prefect and the report, and `round-1` in MLflow.
        """
        child = TrackedRun(self.spool, self.sender, plain(name).replace(" ", "-"))
        child.begin(child.name)
        return child

    def begin(self, shown: str) -> None:
        """Log the start of the run, and its name in MLflow."""
        self.append(Event(run=self.name, kind="start", values={"name": redacted(shown)}))

    @property
    def id(self) -> str | None:
        """MLflow's id of the run, after the first delivery."""
        return self.spool.sent.ids.get(self.name)

    @property
    def url(self) -> str | None:
        """The run's page in MLflow, after the first delivery, if a server shows it."""
        base, sent = server_address(self.spool.home), self.spool.sent
        known = base and self.name in sent.ids
        return f"{base}/#/experiments/{sent.experiment}/runs/{self.id}" if known else None

    def _log(self, kind: Kind, values: Iterable[tuple[str, float | str]], step: int = 0) -> None:
        values = iter(values)
        while part := dict(itertools.islice(values, LARGEST)):
            self.append(Event(run=self.name, kind=kind, values=part, step=step))

    def append(self, event: Event) -> None:
        """Add an event to the spool; a full disk costs the event, not the training."""
        try:
            self.spool.append(event)
        except OSError as error:
            log.warning("A tracking event is lost: %s", error)


@contextmanager
def tracked_run(
    name: str,
    *,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Generator[TrackedRun, None, None]:
    """Track a run while the block lasts; its children end with it.

    Args:
        name: Shown in MLflow.
        params: Settings of the run.
        tags: Digests, ids. The id of the Prefect flow run is added.
        key: The same key continues the same MLflow run, as for a resumed run. None: a new run.
    """
    home = Store.default().root
    spool = Spool(home / "spool" / checked_name(key or uuid.uuid4().hex))
    with file_lock(spool.writer_lock):
        spool.folder.mkdir(exist_ok=True)
        spool.mend()
        run = TrackedRun(spool, Sender(spool))
        run.begin(name)
        run.log_params(params or {})
        run.set_tags({**(tags or {}), **prefect_ids()})
        run.sender.start()
        status = "FAILED"
        try:
            yield run
            status = "FINISHED"
        finally:  # the final status of the run and its open children
            run.append(Event(run="", kind="end", values={"status": status}))
            run.sender.close()
        if not spool.remove_if_delivered():
            log.warning(
                "Events of %s are not delivered to MLflow yet: %s", plain(name), spool.folder
            )


def prefect_ids() -> dict[str, str]:
    """The id of the current Prefect flow run, if there is one."""
    if "prefect" not in sys.modules:
        return {}
    from prefect.runtime import flow_run

    return {"prefect.flow_run_id": str(flow_run.id)} if flow_run.id else {}


def dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested mappings as dotted names that MLflow allows."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield plain(f"{prefix}{name}"), value


def redacted_texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values without secrets."""
    return ((name, redacted(str(value))) for name, value in dotted(values))


@lru_cache  # a training logs the same names at every step
def plain(name: str) -> str:
    """A name that MLflow allows and that holds no secret."""
    return UNNAMEABLE.sub("_", redacted(name))[:250]
