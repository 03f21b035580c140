"""The tracking events of a run in a local file, from which they are delivered to MLflow.

spool/<run>/events.jsonl     one event per line, in order
spool/<run>/sent.json        how many bytes were delivered, and MLflow's ids of the runs
spool/<run>/files/           copies of artifacts that are not delivered yet
spool/<run>/delivery.lock    held during a delivery
spool/<run>.lock             held while the run is alive, or while its spool may be removed
spool/rejected.txt           events that MLflow refused for good, each with its reason
"""

import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from sentemb_core.store import disk
from sentemb_core.types import Value

log = logging.getLogger(__name__)

Point = tuple[str, int]
"""Name and step of a metric."""

Kind = Literal["start", "params", "tags", "metrics", "artifact", "end"]


class Event(Value):
    """One tracking event of a run or of one of its children."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

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
        self.events = folder / "events.jsonl"
        self.writer_lock = folder.parent / f"{folder.name}.lock"
        self.delivery_lock = folder / "delivery.lock"
        self.delivered: dict[str, set[Point]] = {}  # by MLflow's ids of the runs
        self._appending = threading.Lock()

    def append(self, event: Event) -> None:
        """Add one event. It survives a kill at once, and a power cut after `sync`.

        Raises:
            OSError: the disk refuses it; a partial line is removed.
        """
        line = event.model_dump_json().encode() + b"\n"
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
        """Bytes of all events."""
        return self.events.stat().st_size if self.events.exists() else 0

    def after(self, offset: int) -> Iterator[tuple[int, Event]]:
        """Yield the events from an offset on, each with the offset after it."""
        if not self.events.exists():
            return
        with self.events.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):  # it is still being written
                    return
                offset += len(line)
                try:
                    event = Event.model_validate_json(line)
                except ValidationError:
                    log.warning("%s holds a broken line; it is skipped.", self.events)
                else:
                    yield offset, event

    @property
    def sent(self) -> Sent:
        try:
            return Sent.model_validate_json((self.folder / "sent.json").read_bytes())
        except (FileNotFoundError, ValidationError):  # torn by a power cut: deliver all again
            return Sent()

    def mark(self, sent: Sent) -> None:
        """Write `sent.json` atomically."""
        draft = self.folder / f"sent-{uuid.uuid4().hex}"
        disk.write(draft, sent.model_dump_json().encode())
        draft.replace(self.folder / "sent.json")

    def keep(self, path: Path) -> str:
        """Copy a file or folder, which may change before its delivery; return the relative path."""
        place = self.folder / "files" / uuid.uuid4().hex / path.name
        place.parent.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, place)
        else:
            shutil.copy2(path, place)
        return place.relative_to(self.folder).as_posix()

    def forget(self, kept: str) -> None:
        """Remove a copy after its delivery."""
        shutil.rmtree((self.folder / kept).parent, ignore_errors=True)

    def reject(self, event: Event, reason: str) -> None:
        """Record an event that MLflow refuses for good, so that the next ones are delivered."""
        with (self.folder.parent / "rejected.txt").open("a", encoding="utf-8") as file:
            file.write(f"{self.folder.name}\t{event.model_dump_json()}\t{reason}\n")

    def remove_if_delivered(self) -> bool:
        """Remove the spool if all events are delivered; return whether they are."""
        delivered = self.sent.offset == self.size
        if delivered:
            shutil.rmtree(self.folder, ignore_errors=True)
        return delivered
