"""What a run tells its tracker, in a local file first: no server has to be there to keep it.

spool/<run>/events.jsonl     one event a line, in order
spool/<run>/sent.json        how far the tracker has been told, and how it names the runs
spool/<run>/files/           copies of artifacts that were not sent yet
spool/<run>/teller.lock      held while somebody tells the tracker
spool/<run>.lock             held while the run is alive, or while its spool may be removed
spool/rejected.txt           events that the tracker refused for good, each with its reason
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
    """Something that happened in a run, or in one of its children."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    run: str = Field(description="Name of the child; empty for the run itself.")
    kind: Kind
    values: dict[str, float | str]
    step: int = 0
    at: int = Field(default_factory=lambda: time.time_ns() // 1_000_000, description="Unix ms.")


class Sent(Value):
    """How far the tracker has been told."""

    tracker: str = Field(default="", description="Which: its ids mean nothing to another.")
    offset: int = 0
    experiment: str = ""
    ids: dict[str, str] = Field(
        default={}, description="The tracker's ids of the run and its children."
    )


class Spool:
    """The events of one run: a process writes them; after its death another may send the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = folder / "events.jsonl"
        self.writer_lock = folder.parent / f"{folder.name}.lock"
        self.teller_lock = folder / "teller.lock"
        self.told: dict[str, set[Point]] = {}  # by the tracker's ids: kept by who delivers
        self._appending = threading.Lock()

    def append(self, event: Event) -> None:
        """Add one event. It outlives a kill of this process at once, a power cut after `sync`.

        Raises:
            OSError: the disk refuses. No half of a line is left, which would spoil the next event.
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
        """Cut off the half line that a killed writer may have left.

        What was told before a power cut that took it is told again, with what comes in its place.
        """
        if self.events.exists():
            os.truncate(self.events, self.events.read_bytes().rfind(b"\n") + 1)
            if (sent := self.sent).offset > self.size:
                self.mark(sent.model_copy(update={"offset": 0}))

    def sync(self) -> None:
        """Bring all events to the disk itself, if it takes them."""
        with suppress(OSError), self.events.open("rb") as file:
            os.fsync(file.fileno())

    @property
    def size(self) -> int:
        """Bytes of all events."""
        return self.events.stat().st_size if self.events.exists() else 0

    def after(self, offset: int) -> Iterator[tuple[int, Event]]:
        """Events from a position on, each with the position behind it."""
        if not self.events.exists():
            return
        with self.events.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):  # its writer is not done with it
                    return
                offset += len(line)
                try:
                    event = Event.model_validate_json(line)
                except ValidationError:
                    log.warning("%s holds a broken line, which is left out.", self.events)
                else:
                    yield offset, event

    @property
    def sent(self) -> Sent:
        try:
            return Sent.model_validate_json((self.folder / "sent.json").read_bytes())
        except (FileNotFoundError, ValidationError):  # torn by a power cut: all is told again
            return Sent()

    def mark(self, sent: Sent) -> None:
        """Remember how far the tracker has been told: old or new, never a mixture."""
        draft = self.folder / f"sent-{uuid.uuid4().hex}"
        disk.write(draft, sent.model_dump_json().encode())
        draft.replace(self.folder / "sent.json")

    def keep(self, path: Path) -> str:
        """Copy a file or a folder, whose original may be gone when the tracker answers."""
        place = self.folder / "files" / uuid.uuid4().hex / path.name
        place.parent.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, place)
        else:
            shutil.copy2(path, place)
        return place.relative_to(self.folder).as_posix()

    def forget(self, kept: str) -> None:
        """Remove a copy that was sent."""
        shutil.rmtree((self.folder / kept).parent, ignore_errors=True)

    def reject(self, event: Event, reason: str) -> None:
        """Set aside what the tracker refuses for good, so that it does not block the rest."""
        with (self.folder.parent / "rejected.txt").open("a", encoding="utf-8") as file:
            file.write(f"{self.folder.name}\t{event.model_dump_json()}\t{reason}\n")

    def remove_if_told(self) -> bool:
        """Remove the spool if the tracker was told all of it."""
        told = self.sent.offset == self.size
        if told:
            shutil.rmtree(self.folder, ignore_errors=True)
        return told
