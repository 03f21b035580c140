"""Who takes the calls of stages in place of Prefect: a plan, or the process itself."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from sentemb_core.config.run import RunConfig
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record, refs_in
from sentemb_core.store.stages import Stage, StageKey
from sentemb_core.store.status import RecordedKeys, Status, status_of
from sentemb_core.types import ArtifactRef
from tasks.setting_names import in_settings

PENDING = "0" * 32
"""How the digest begins of an artifact that a plan does not know yet; the rest is its own."""


def is_pending(ref: ArtifactRef) -> bool:
    """Whether a plan handed it out for a stage that has yet to run."""
    return ref.digest.startswith(PENDING)


class Undecided(BaseException):
    """The flow depends on a value that a stage has yet to compute."""


class DryRun:
    """What the stages of a flow would do, collected while its code is walked.

    `config` is the run's, by whose settings it tells why.
    """

    def __init__(self, store: Store, config: RunConfig | None = None) -> None:
        self.store = store
        self.config = config
        self.earlier = RecordedKeys(store)
        self.told: list[Status] = []
        self.undecided = False
        self.next_key = ""
        """Digest of the first stage's key that misses."""
        self._first: dict[str, tuple[str, Record | None]] = {}
        """Digest of a stage's key -> the part that has it first, and its record on a hit."""

    def visit(self, stage: Stage, arguments: dict[str, Any]) -> Any:
        """The recorded result on a hit; else a stand-in, by which later stages know their place.

        Raises:
            Undecided: the stage misses and gives out more than references.
        """
        key = stage.key(arguments)
        if key.digest in self._first:
            where, record = self._first[key.digest]
            self.told.append(Status(stage.name, "SAME", where or "above", _part.get()))
        else:
            record = self._looked_up(stage, arguments, key)
            self._first[key.digest] = _part.get(), record
        return stage.result(record) if record else _pending(stage, key)

    def _looked_up(self, stage: Stage, arguments: dict[str, Any], key: StageKey) -> Record | None:
        """The record on a hit; told is what the stage would do."""
        waiting_for = [ref.kind for ref in refs_in(arguments) if is_pending(ref)]
        if waiting_for:
            self.told.append(Status(stage.name, "AFTER", waiting_for[-1], _part.get()))
            return None
        found = stage.look_up(self.store, key)
        told = status_of(stage.name, key, found, self.earlier)
        why = in_settings(told.why, stage.name, arguments, self.config)
        if told.would_run and (step := step_kept(self.store, stage.name, key.digest)):
            why = f"begun, goes on after step {step:,}"
        self.told.append(replace(told, why=why, part=_part.get()))
        if isinstance(found, Record):
            return found
        self.next_key = self.next_key or key.digest
        return None


def step_kept(store: Store, stage: str, key: str) -> int:
    """The last step that checkpoints hold of a stage that was begun under this key, else 0."""
    folder = store.root / "work" / f"{stage}-{key}"
    if not folder.is_dir():
        return 0
    from sentemb_core.training.checkpoint import last_step  # torch, for which few plans wait

    return last_step(folder)


def _pending(stage: Stage, key: StageKey) -> Any:
    """What a stage would give out, each artifact told from all others of the plan."""

    def ref(field: str = "") -> ArtifactRef:
        rest = sha256(f"{key.digest}{field}".encode()).hexdigest()[len(PENDING) :]
        return ArtifactRef(kind=stage.name[:40], digest=PENDING + rest, size=0)

    if stage.returns is ArtifactRef:
        return ref()
    if isinstance(stage.returns, type) and issubclass(stage.returns, BaseModel):
        fields = stage.returns.model_fields
        if not any(field.annotation is int for field in fields.values()):
            return stage.returns.model_construct(None, **{name: ref(name) for name in fields})
    raise Undecided(stage.name)


class InProcess:
    """Stages computed here and now, with the same records and no Prefect."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def visit(self, stage: Stage, arguments: dict[str, Any]) -> Any:
        """The recorded result, or a computed one."""
        return stage.run(self.store, arguments)


_walker: ContextVar[DryRun | InProcess | None] = ContextVar("walker", default=None)


def walking() -> DryRun | InProcess | None:
    """Who takes the calls of tasks in this context in place of Prefect."""
    return _walker.get()


def in_plan() -> bool:
    """Whether a plan looks ahead here: nothing happens yet, and there is nothing to tell."""
    return isinstance(walking(), DryRun)


_part: ContextVar[str] = ContextVar("part", default="")


@contextmanager
def part(label: str) -> Generator[None, None, None]:
    """A plan tells the stages of this block as those of a round, a cell, a training."""
    token = _part.set(label)
    try:
        yield
    finally:
        _part.reset(token)


@contextmanager
def making_plan(store: Store, config: RunConfig | None = None) -> Generator[DryRun, None, None]:
    """In this block a task tells what it would do; the block ends where that is undecided."""
    token = _walker.set(plan := DryRun(store, config))
    try:
        yield plan
    except Undecided:
        plan.undecided = True
    finally:
        _walker.reset(token)


@contextmanager
def each_undecided() -> Generator[None, None, None]:
    """In a plan an undecided stage ends this block alone, and what comes after it is told."""
    try:
        yield
    except Undecided:
        plan = walking()
        assert isinstance(plan, DryRun), "stages that run decide"
        plan.undecided = True


@contextmanager
def without_prefect(store: Store) -> Generator[None, None, None]:
    """In this block tasks run as plain functions over the store: no server, the same artifacts."""
    token = _walker.set(InProcess(store))
    try:
        yield
    finally:
        _walker.reset(token)
