"""Runs: which stages a run used. `gc` keeps their artifacts; a report counts hits and misses.

    runs/<run>.json     the whole run, written at its start, at its end and on `update`
    runs/<run>.jsonl    stages used since then, one a line

Both are sealed (`seals.py`): a run with a flipped bit is refused, and neither resumed nor shown.
A stage is written before its result is used, since `gc` may run at any moment. It is appended,
because writing the whole list after each of a thousand stages would take half a minute.
"""

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Literal, TypeVar

from pydantic import Field

from sentemb_core.errors import BrokenFileError
from sentemb_core.redaction import first_line, redacted
from sentemb_core.store import disk
from sentemb_core.store.locks import file_lock, is_locked
from sentemb_core.store.objects import Store, checked_name
from sentemb_core.store.records import Record
from sentemb_core.store.seals import sealed, unsealed
from sentemb_core.termination import cleaning_up
from sentemb_core.types import ArtifactRef, Json, Value

log = logging.getLogger(__name__)

Item = TypeVar("Item")

State = Literal["running", "completed", "failed", "killed"]


class Used(Value):
    """One stage of a run. `seconds` is its cost when it was computed, now or earlier."""

    stage: str
    key: str
    hit: bool
    seconds: float
    inputs: list[ArtifactRef]
    outputs: list[ArtifactRef]

    @property
    def work(self) -> tuple[str, tuple[ArtifactRef, ...]]:
        """Return the identity of the computation: the same key with other outputs is another."""
        return self.key, tuple(self.outputs)


class Run(Value):
    """A run from its first start to its last end. `error` is why it failed, without secrets."""

    id: str
    command: list[str]
    config: Json
    state: State
    started: float
    resumed: float | None = None
    finished: float | None = None
    error: str = ""
    stages: list[Used] = Field(default=[])
    outputs: list[ArtifactRef] = Field(default=[])

    @property
    def refs(self) -> list[ArtifactRef]:
        """Return all artifacts that the run read, made or named as its outputs."""
        used = [ref for stage in self.stages for ref in (*stage.inputs, *stage.outputs)]
        return list(dict.fromkeys([*self.outputs, *used]))

    @property
    def began(self) -> float:
        """Return the start of the run's last process."""
        return self.resumed or self.started


class RunLog:
    """The active run of this context; several threads may share it.

    `uses` repeats a stage with every use in this process. A stage that an earlier process of the
    same run computed is no hit.
    """

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run
        self.uses: list[Used] = []
        self._known: dict[object, Used] = {used.work: used for used in run.stages}
        self._lock = Lock()

    @property
    def used(self) -> list[Used]:
        """Return each stage that this process used, once, in order of first use."""
        return list({used.work: used for used in self.uses}.values())

    def update(self, **changes: object) -> None:
        """Change fields of the run (`outputs=[...]`, ...) and write it."""
        with self._lock:
            self.run = self.run.model_copy(update=changes)
            write_run(self.store, self.run)
            disk.remove(_appended_file(self.store, self.run.id))

    def add(self, used: Used) -> None:
        """Add one use of a stage. The first use of a computation counts as hit or miss."""
        with self._lock:
            if used.work not in self._known:
                _append(self.store, self.run.id, used)  # may fail on a full disk: then not known
                self.run = self.run.model_copy(update={"stages": [*self.run.stages, used]})
            self.uses.append(self._known.setdefault(used.work, used))

    def with_uses(self, items: Iterable[Item]) -> Iterator[tuple[Item, list[Used]]]:
        """Yield each item with the stages, each once, that were used to make it."""
        count = len(self.uses)
        for item in items:
            uses, count = {used.key: used for used in self.uses[count:]}, len(self.uses)
            yield item, list(uses.values())


_current: ContextVar[RunLog | None] = ContextVar("run", default=None)
_runs_of_this_process: list[str] = []


def runs_of_this_process() -> tuple[str, ...]:
    """Return the ids of the runs that this process started or resumed."""
    return tuple(_runs_of_this_process)


@contextmanager
def recording(
    store: Store, run_id: str, command: Sequence[str], config: Json, *, resumed: bool = False
) -> Generator[RunLog, None, None]:
    """Write the stages that the block uses to `runs/<run_id>.json`, as they happen.

    The run's lock is held meanwhile: a run in state `running` without a lock was killed. A resumed
    run keeps its start and its stages.
    """
    now = time.time()
    run = Run(id=run_id, command=list(command), config=config, state="running", started=now)
    with file_lock(_run_lock(store, run_id)):
        if resumed and (before := read_run(store, run_id)):
            kept = {"started": before.started, "stages": before.stages, "resumed": now}
            run = run.model_copy(update=kept)
        active = RunLog(store, run)
        active.update()
        _runs_of_this_process.append(run_id)
        token = _current.set(active)
        try:
            yield active
        except Exception as error:
            active.update(state="failed", finished=time.time(), error=redacted(str(error)))
            raise
        except BaseException:  # Ctrl-C, or a scheduler ended it
            cleaning_up()
            active.update(state="killed", finished=time.time())
            raise
        else:
            active.update(state="completed", finished=time.time())
        finally:
            _current.reset(token)


def note(record: Record, *, hit: bool) -> None:
    """Add the use of a stage's record to the active run, if there is one."""
    if active := _current.get():
        fields = record.model_dump(include={"stage", "key", "seconds", "inputs", "outputs"})
        active.add(Used(hit=hit, **fields))


def _run_lock(store: Store, run_id: str) -> Path:
    return store.lock(f"run-{checked_name(run_id)}")


def write_run(store: Store, run: Run) -> None:
    """Write a run atomically."""
    path = _file(store, checked_name(run.id))
    disk.write_atomically(path, sealed(run.model_dump(mode="json")), store.tmp)


def _file(store: Store, run_id: str) -> Path:
    return store.root / "runs" / f"{run_id}.json"


def _appended_file(store: Store, run_id: str) -> Path:
    return _file(store, run_id).with_suffix(".jsonl")


def _append(store: Store, run_id: str, used: Used) -> None:
    """Append a stage to the run's file. Only misses are synced: a lost hit is used again."""
    path = _appended_file(store, run_id)
    disk.make_folder(path.parent)
    disk.append(path, b"\n" + sealed(used.model_dump(mode="json")))  # \n ends a partial line
    if not used.hit:
        disk.sync(path)
        disk.sync(path.parent)


def _appended(store: Store, run_id: str) -> list[Used]:
    """Return the appended stages, without lines that are truncated (kill, full disk) or damaged.

    Such a stage is only a cache hit of its run; its artifacts are found again at its next use.
    """
    file = _appended_file(store, run_id)
    try:
        lines = disk.read(file).splitlines()
    except FileNotFoundError:
        return []
    stages: list[Used] = []
    for number, line in enumerate(lines, 1):
        try:
            stages += [Used.model_validate(unsealed(line))] if line else []
        except ValueError as error:
            log.warning("line %d of %s is not used: %s", number, file, first_line(error))
    return stages


def read_run(store: Store, run_id: str) -> Run | None:
    """Return the run of this id; `killed` if its state is `running` and its lock is free.

    Raises:
        StorageError: the disk cannot read it.
        BrokenFileError: it is damaged, or an earlier version wrote it.
    """
    run = _read_files(store, run_id)
    if run and run.state == "running" and not is_locked(_run_lock(store, run_id)):
        run = _read_files(store, run_id)  # it may have ended just now, and then released the lock
        if run and run.state == "running":
            return run.model_copy(update={"state": "killed"})
    return run


def _read_files(store: Store, run_id: str) -> Run | None:
    """Return the run in its files; None for an absent file."""
    path = _file(store, run_id)
    try:
        appended = _appended(store, run_id)  # first: writing the whole run removes this file
        run = _run_in(path)
    except disk.ABSENCE:
        return None
    except ValueError as error:
        raise BrokenFileError(
            f"A run is read only under its seal. {path} is damaged, or an earlier version wrote "
            f"it: {first_line(error)}. `python -m flows fsck` moves it to quarantine; then start "
            "the run again, which reuses every finished stage."
        ) from error
    known = {used.work for used in run.stages}
    stages = [*run.stages, *(used for used in appended if used.work not in known)]
    return run.model_copy(update={"stages": stages})


def _run_in(path: Path) -> Run:
    run = Run.model_validate(unsealed(disk.read(path)))
    if run.id != path.stem:
        raise ValueError(f"it belongs to run {run.id}")
    return run


def last_runs(store: Store) -> list[Run]:
    """Return all readable runs, the latest start or resumption first; log the broken ones."""
    runs, broken = scan(store)
    for error in broken.values():
        log.warning("%s", error)
    return runs


def scan(store: Store) -> tuple[list[Run], dict[Path, BrokenFileError]]:
    """Return all readable runs, the latest first, and the files of the others with the reason."""
    runs: list[Run] = []
    broken: dict[Path, BrokenFileError] = {}
    for path in sorted((store.root / "runs").glob("*.json")):
        try:
            runs += [run] if (run := read_run(store, path.stem)) else []
        except BrokenFileError as error:
            broken[path] = error
    return sorted(runs, key=lambda run: (run.began, run.id), reverse=True), broken
