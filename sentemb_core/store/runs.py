"""What a run used: the list by which `gc` keeps its artifacts and a report tells hits from work.

    runs/<run>.json     the run, whole: written when it begins, ends, or is changed
    runs/<run>.jsonl    stages that it has used since, one a line

A stage is filed before its result is used, since `gc` may ask at any moment; and alone, since a
run of a thousand stages would spend half a minute on writing the whole list with each.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from sentemb_core.redaction import redacted
from sentemb_core.store import disk
from sentemb_core.store.locks import file_lock, is_locked
from sentemb_core.store.objects import Store, canonical, checked_name
from sentemb_core.store.records import Record
from sentemb_core.types import ArtifactRef, Json, Value

Made = TypeVar("Made")

State = Literal["running", "completed", "failed", "killed"]


class Used(Value):
    """One stage of a run. `seconds` is what it cost when it was computed, now or earlier."""

    stage: str
    key: str
    hit: bool
    seconds: float
    inputs: list[ArtifactRef]
    outputs: list[ArtifactRef]

    @property
    def work(self) -> tuple[str, tuple[ArtifactRef, ...]]:
        """What a run counts once: made anew with another outcome, as a timed one, it is another."""
        return self.key, tuple(self.outputs)


class Run(Value):
    """A run from its start on, and again where it goes on.

    `error` is why it failed, without secrets.
    """

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
        """All artifacts that the run read, made or named as its outputs."""
        used = [ref for stage in self.stages for ref in (*stage.inputs, *stage.outputs)]
        return list(dict.fromkeys([*self.outputs, *used]))

    @property
    def began(self) -> float:
        """When its last process did."""
        return self.resumed or self.started


class RunLog:
    """The run that goes on in this context, in one thread or several.

    `used` are its stages as this process came to them, each where it came first; `uses` has each
    as often as it was used. One that a killed process of the same run computed is the run's own
    work, not a hit.
    """

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run
        self.uses: list[Used] = []
        self._used: dict[object, Used] = {}
        self._known: dict[object, Used] = {used.work: used for used in run.stages}
        self._turn = Lock()

    @property
    def used(self) -> list[Used]:
        return list(self._used.values())

    def update(self, **changes: object) -> None:
        """Change fields of the run (`outputs=[...]`, ...) and file it."""
        with self._turn:
            self.run = self.run.model_copy(update=changes)
            write_run(self.store, self.run)
            disk.remove(later_file(self.store, self.run.id))

    def add(self, used: Used) -> None:
        """One more stage; the first use of a key is the one that counts."""
        with self._turn:
            if used.work not in self._known:
                add_used(
                    self.store, self.run.id, used
                )  # first: what a full disk refuses is not known
                self.run = self.run.model_copy(update={"stages": [*self.run.stages, used]})
            first = self._known.setdefault(used.work, used)
            self.uses.append(first)
            self._used.setdefault(used.work, first)

    def with_uses(self, made: Iterable[Made]) -> Iterator[tuple[Made, list[Used]]]:
        """Each with the stages, each of them once, that were used while it was made."""
        known = len(self.uses)
        for one in made:
            fresh, known = {used.key: used for used in self.uses[known:]}, len(self.uses)
            yield one, list(fresh.values())


_current: ContextVar[RunLog | None] = ContextVar("run", default=None)
_begun_here: list[str] = []


def runs_of_this_process() -> tuple[str, ...]:
    """Ids of the runs that this process began, or went on with; others may share its home."""
    return tuple(_begun_here)


@contextmanager
def recording(
    store: Store, run_id: str, command: Sequence[str], config: Json, *, resumed: bool = False
) -> Generator[RunLog, None, None]:
    """File what the stages of this block use under `runs/<run_id>.json`, as it happens.

    The run's lock is held meanwhile: a file that says `running` without a lock was killed. Of a
    run that is resumed the start and the stages stay.
    """
    now = time.time()
    run = Run(id=run_id, command=list(command), config=config, state="running", started=now)
    with file_lock(run_lock(store, run_id)):
        if resumed and (before := read_run(store, run_id)):
            kept = {"started": before.started, "stages": before.stages, "resumed": now}
            run = run.model_copy(update=kept)
        log = RunLog(store, run)
        log.update()
        _begun_here.append(run_id)
        token = _current.set(log)
        try:
            yield log
        except Exception as error:
            log.update(state="failed", finished=time.time(), error=redacted(str(error)))
            raise
        except BaseException:  # a person or a scheduler ended it
            log.update(state="killed", finished=time.time())
            raise
        else:
            log.update(state="completed", finished=time.time())
        finally:
            _current.reset(token)


def note(record: Record, *, hit: bool) -> None:
    """Tell the run of this context, if there is one, that a stage's record was used."""
    if log := _current.get():
        log.add(
            Used(
                stage=record.stage,
                key=record.key,
                hit=hit,
                seconds=record.seconds,
                inputs=record.inputs,
                outputs=record.outputs,
            )
        )


def run_lock(store: Store, run_id: str) -> Path:
    return store.lock(f"run-{checked_name(run_id)}")


def write_run(store: Store, run: Run) -> None:
    """File a run, atomically."""
    path = store.root / "runs" / f"{checked_name(run.id)}.json"
    disk.write_atomically(path, canonical(run.model_dump(mode="json")), store.tmp)


def later_file(store: Store, run_id: str) -> Path:
    return store.root / "runs" / f"{run_id}.jsonl"


def add_used(store: Store, run_id: str, used: Used) -> None:
    """File a stage beside its run; a power cut may take a hit, which is met again."""
    path = later_file(store, run_id)
    disk.make_folder(path.parent)
    disk.append(path, b"\n" + canonical(used.model_dump(mode="json")))  # after whatever half line
    if not used.hit:
        disk.sync(path)
        disk.sync(path.parent)


def used_later(store: Store, run_id: str) -> list[Used]:
    """What was filed beside a run, but for lines that a kill or a full disk cut off."""
    try:
        lines = disk.read(later_file(store, run_id)).splitlines()
    except FileNotFoundError:
        return []
    found: list[Used] = []
    for line in filter(None, lines):
        with suppress(ValidationError):
            found.append(Used.model_validate_json(line))
    return found


def read_run(store: Store, run_id: str) -> Run | None:
    """The run of this id, if it is filed; `killed` if it says `running` and nobody holds its lock.

    Raises:
        StorageError: the disk does not give it.
    """
    run = filed(store, run_id)
    if run and run.state == "running" and not is_locked(run_lock(store, run_id)):
        run = filed(store, run_id)  # it lets go behind its last word, which may just have come
        if run and run.state == "running":
            return run.model_copy(update={"state": "killed"})
    return run


def filed(store: Store, run_id: str) -> Run | None:
    """A run as its files say; a broken file is no run."""
    try:
        later = used_later(store, run_id)  # first: they go when the whole run is written
        run = Run.model_validate_json(disk.read(store.root / "runs" / f"{run_id}.json"))
    except (*disk.ABSENCE, ValidationError):
        return None
    known = {used.work for used in run.stages}
    stages = [*run.stages, *(used for used in later if used.work not in known)]
    return run.model_copy(update={"stages": stages})


def last_runs(store: Store) -> list[Run]:
    """All runs, the one that began or went on last first."""
    ids = [path.stem for path in (store.root / "runs").glob("*.json")]
    found = [run for run_id in ids if (run := read_run(store, run_id))]
    return sorted(found, key=lambda run: (run.began, run.id), reverse=True)
