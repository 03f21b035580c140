"""How stages and sub-flows run: under Prefect, as a dry run, or in this process.

A context variable holds the executor. Without one, Prefect runs the flow:

    (Prefect)    a stage is a Prefect task and a sub-flow a Prefect flow (`python -m flows run`)
    DryRun       nothing runs; every stage reports what it would do (`--dry-run`, `status`)
    InProcess    a stage is a plain function over the store, without any server (tests, scripts)

All three read the same records, so each finds what another one has computed.
"""

import inspect
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, cached_property, partial, update_wrapper
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pydantic import BaseModel

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import (
    ClusterError,
    SentembError,
    ServerLostError,
    SharedStoreError,
    StorageError,
)
from sentemb_core.store import records
from sentemb_core.store.locks import is_locked
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record, refs_in
from sentemb_core.store.stages import Stage, StageKey
from sentemb_core.store.status import RUNS_NOW, Status, status_of, status_of_shards
from sentemb_core.types import ArtifactRef
from tasks.setting_names import in_settings
from tasks.workers import run_stage

if TYPE_CHECKING:
    from prefect import Flow

P = ParamSpec("P")
R = TypeVar("R")

Arguments = dict[str, Any]


class InProcess:
    """Stages are functions over the store: the same records, and no Prefect."""

    def run_stage(self, stage: Stage, arguments: Arguments) -> Any:
        return run_stage(stage, arguments)

    def run_sub_flow(self, label: str, call: Callable[[], R]) -> R:
        return call()


class DryRun:
    """No stage runs. `statuses` says of each whether it is cached, and if not, why.

    A cached stage returns its recorded result. Any other returns pending references, which say
    which later stages wait for it. The dry run ends at the first stage whose result decides how
    the flow goes on (`incomplete`).
    """

    def __init__(self, config: RunConfig | None = None) -> None:
        """`config` is the run's: a reason names its settings in place of a stage's arguments."""
        self.config = config
        self._store = Store.default()
        self._earlier = cache(partial(records.all_records, self._store))
        self.statuses: list[Status] = []
        self.incomplete = False
        self.next_key = ""
        """Digest of the key of the first stage that misses."""
        self._known: dict[str, tuple[str, Record | None]] = {}
        """Digest of a stage's key -> the section that met it first, and its record on a hit."""
        self._places: dict[str, int] = {}
        """Digest of a pending reference -> the place of its stage in `statuses`."""

    def run_stage(self, stage: Stage, arguments: Arguments) -> Any:
        """Return the recorded result on a hit, else pending references (or UnknownResult)."""
        key = stage.key(arguments)
        if key.digest in self._known:
            where, record = self._known[key.digest]
            self.statuses.append(Status(stage.name, "SAME", where or "above", _section.get()))
        else:
            record = self._look_up(stage, arguments, key)
            self._known[key.digest] = _section.get(), record
        if record:
            return stage.result(record)
        result = _pending(stage, key)
        for ref in refs_in(result):
            self._places.setdefault(ref.digest, len(self.statuses))
        return result

    def run_sub_flow(self, label: str, call: Callable[[], R]) -> R:
        with section(label):
            return call()

    @contextmanager
    def as_one_stage(self, stage: Stage, shards: int) -> Generator[None, None, None]:
        """Report the stages of this block, the calls for each shard and a join, as one."""
        first = len(self.statuses)
        yield
        self.statuses[first:] = [status_of_shards(stage.name, self.statuses[first:], shards)]
        for digest, place in self._places.items():
            self._places[digest] = min(place, first + 1)

    def _look_up(self, stage: Stage, arguments: Arguments, key: StageKey) -> Record | None:
        """Return the record on a hit, and add the stage's status."""
        waits_for = [ref for ref in refs_in(arguments) if is_pending(ref)]
        if waits_for:
            last = max(waits_for, key=lambda ref: self._places[ref.digest])
            self.statuses.append(Status(stage.name, "AFTER", last.kind, _section.get()))
            return None
        record = stage.look_up(self._store, key)
        status = status_of(stage.name, key, record, self._earlier)
        why = in_settings(status.why, stage.name, arguments, self.config)
        if status.would_run and (step := last_checkpoint_step(stage.name, key.digest)):
            why = f"begun, goes on after step {step:,}"
        if status.would_run and is_locked(self._store.lock(f"{stage.name}-{key.digest}")):
            why = RUNS_NOW
        self.statuses.append(replace(status, why=why, part=_section.get()))
        if isinstance(record, Record):
            return record
        self.next_key = self.next_key or key.digest
        return None


@contextmanager
def setting(variable: ContextVar[R], value: R) -> Generator[None, None, None]:
    """Set a context variable in this block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


_executor: ContextVar[DryRun | InProcess | None] = ContextVar("executor", default=None)


def current_executor() -> DryRun | InProcess | None:
    """The executor of this context; none: Prefect."""
    return _executor.get()


def as_one_stage(stage: Stage, shards: int) -> AbstractContextManager[None]:
    """A dry run reports the stages of this block as one."""
    plan = current_executor()
    return plan.as_one_stage(stage, shards) if isinstance(plan, DryRun) else nullcontext()


SHARDS = "shards"
"""Name of the sub-flows of Prefect that hold the shards of one stage."""


def in_sub_flow(label: str, call: Callable[[], R]) -> R:
    """Return the result of a call, which is a bar of its own on Prefect's page."""
    if current_executor():
        return call()
    from prefect import Flow

    return Flow(call, name=SHARDS, flow_run_name=label)()


def is_dry_run() -> bool:
    """Whether nothing runs here: what logs and checks a result has none to look at."""
    return isinstance(current_executor(), DryRun)


def without_prefect() -> AbstractContextManager[None]:
    """In this block stages run in this process."""
    return setting(_executor, InProcess())


@contextmanager
def dry_run(config: RunConfig | None = None) -> Generator[DryRun, None, None]:
    """In this block stages only report; the block ends where the flow needs an unknown result."""
    plan = DryRun(config)
    with setting(_executor, plan), skip_unknown_results():
        yield plan


class UnknownResult(BaseException):
    """A dry run needs a result that decides how the flow goes on."""


@contextmanager
def skip_unknown_results() -> Generator[None, None, None]:
    """In a dry run, an unknown result ends this block alone: one cell of a table, not the table."""
    try:
        yield
    except UnknownResult:
        plan = current_executor()
        assert isinstance(plan, DryRun), "only a dry run raises it"
        plan.incomplete = True


_section: ContextVar[str] = ContextVar("section", default="")


def section(label: str) -> AbstractContextManager[None]:
    """A dry run lists the stages of this block under a label: a round, a cell, a training."""
    return setting(_section, label)


PENDING = "0" * 32
"""Start of the digest of a pending reference; the rest makes it unique."""


def is_pending(ref: ArtifactRef) -> bool:
    """Whether a dry run returned it for a stage that has yet to run."""
    return ref.digest.startswith(PENDING)


def _pending(stage: Stage, key: StageKey) -> Any:
    """What the stage would return, with a pending reference in place of every artifact."""

    def ref(field: str = "") -> ArtifactRef:
        rest = sha256(f"{key.digest}{field}".encode()).hexdigest()[len(PENDING) :]
        return ArtifactRef(kind=stage.name[:40], digest=PENDING + rest, size=0)

    if stage.returns is ArtifactRef:
        return ref()
    if isinstance(stage.returns, type) and issubclass(stage.returns, BaseModel):
        fields = stage.returns.model_fields
        if not any(field.annotation in (int, list[ArtifactRef]) for field in fields.values()):
            return stage.returns.model_construct(None, **{name: ref(name) for name in fields})
    raise UnknownResult(stage.name)


def last_checkpoint_step(stage: str, key: str) -> int:
    """Step of the last checkpoint of a stage under this key; 0 without one."""
    folder = Store.default().root / "work" / f"{stage}-{key}"
    if not folder.is_dir():
        return 0
    from sentemb_core.training.checkpoint import last_step  # imports torch, which takes seconds

    return last_step(folder)


class FlowFunction(Generic[P, R]):
    """A function as a flow: a bar that opens on Prefect's page, a section in a dry run.

    Prefect is imported, and its flow built, at the first use that needs them.
    """

    def __init__(self, function: Callable[P, R], name: str, flow_run_name: str) -> None:
        self.fn = function
        self._name, self._run_name = name, flow_run_name
        update_wrapper(self, function)

    @cached_property
    def prefect_flow(self) -> "Flow[P, R]":
        """Return Prefect's flow; the schema of its parameters takes a tenth of a second."""
        from prefect import flow

        return flow(name=self._name, flow_run_name=self._run_name)(self.fn)

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Prefect's class where Prefect is imported, else this one: workers accept only a Flow."""
        prefect = sys.modules.get("prefect.flows")
        return prefect.Flow if prefect else FlowFunction

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of Prefect's flow, such as `with_options`."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.prefect_flow, name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        executor = current_executor()
        if executor is None:
            return self.prefect_flow(*args, **kwargs)
        arguments = inspect.signature(self.fn).bind(*args, **kwargs).arguments
        label = self._run_name.format(**arguments)
        return executor.run_sub_flow(label, partial(self.fn, *args, **kwargs))


def flow(*, name: str, flow_run_name: str) -> Callable[[Callable[P, R]], FlowFunction[P, R]]:
    """Make a function a flow.

    Args:
        name: Of the Prefect flow.
        flow_run_name: A template over the function's parameters, such as `{label}`.
    """
    return lambda function: FlowFunction(function, name, flow_run_name)


log = logging.getLogger("sentemb_core.run")


def isolate_errors(label: str, compute: Callable[[], R]) -> tuple[R | None, str]:
    """Return the result, or its error; neither if a dry run cannot know yet.

    An error of the disk or of Prefect's server is raised: the run fails, and `resume` continues it.
    """
    with skip_unknown_results():
        try:
            return compute(), ""
        except Exception as failure:
            if ends_all_parts(failure):
                raise
            error = str(failure)
            if not isinstance(failure, SentembError):
                log.exception("%s failed", label)
                error = f"{SentembError.code} {type(failure).__name__}: {error}"
        if isinstance(plan := current_executor(), DryRun):
            plan.statuses.append(Status("", "REFUSED", error, label))
        return None, error
    return None, ""


def ends_all_parts(error: Exception) -> bool:
    """Return whether every later part would fail as well: by a store or Prefect's server."""
    if isinstance(error, SentembError):
        return isinstance(error, StorageError | ServerLostError | SharedStoreError | ClusterError)
    from httpx import TransportError
    from prefect.exceptions import PrefectHTTPStatusError

    return isinstance(error, TransportError | PrefectHTTPStatusError)
