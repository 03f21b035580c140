"""What a run used: the list by which `gc` keeps its artifacts and a report tells hits from work."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
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


class Run(Value):
    """A run from its start on; rewritten after each of its stages, and again where it goes on.

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
        self.used: list[Used] = []
        self.uses: list[Used] = []
        self._turn = Lock()

    def update(self, **changes: object) -> None:
        """Change fields of the run (`outputs=[...]`, ...) and file it."""
        with self._turn:
            self._file(**changes)

    def add(self, used: Used) -> None:
        """One more stage; the first use of a key is the one that counts.

        One that was made anew and came out otherwise, as a timed one does, is filed beside it.
        """
        with self._turn:
            same = (used.key, used.outputs)
            before = [known for known in self.run.stages if (known.key, known.outputs) == same]
            first = before[0] if before else used
            self.uses.append(first)
            if first not in self.used:
                self.used.append(first)
            if not before:
                self._file(stages=[*self.run.stages, used])

    def with_uses(self, made: Iterable[Made]) -> Iterator[tuple[Made, list[Used]]]:
        """Each with the stages, each of them once, that were used while it was made."""
        known = len(self.uses)
        for one in made:
            fresh, known = {used.key: used for used in self.uses[known:]}, len(self.uses)
            yield one, list(fresh.values())

    def _file(self, **changes: object) -> None:
        self.run = self.run.model_copy(update=changes)
        write_run(self.store, self.run)


_current: ContextVar[RunLog | None] = ContextVar("run", default=None)
_begun_here: list[str] = []


def begun_here() -> tuple[str, ...]:
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


def read_run(store: Store, run_id: str) -> Run | None:
    """The run of this id, if it is filed; a broken file is no run."""
    try:
        run = Run.model_validate_json(disk.read(store.root / "runs" / f"{run_id}.json"))
    except (OSError, ValidationError):
        return None
    return as_it_is(store, run)


def last_runs(store: Store) -> list[Run]:
    """All runs, the one that began or went on last first."""
    ids = [path.stem for path in (store.root / "runs").glob("*.json")]
    found = [run for run_id in ids if (run := read_run(store, run_id))]
    return sorted(found, key=lambda run: (run.began, run.id), reverse=True)


def as_it_is(store: Store, run: Run) -> Run:
    """The run, `killed` if it says that it is running and nobody holds its lock."""
    alive = run.state != "running" or is_locked(run_lock(store, run.id))
    return run if alive else run.model_copy(update={"state": "killed"})
