"""`@stage`: a function as a Prefect task whose cache is the core's store of records.

Prefect asks our policy for a key and our storage for a record of that key. The storage reads core
records alone (records.py: JSON, sealed, every artifact verified) and hands Prefect an envelope of
its own making, so no file can name the code that reads it; whatever the core refuses raises here,
and Prefect takes that for a miss. The body looks up again, computes under a lock and files the
record itself: what Prefect writes afterwards is checked and dropped. So a stage gives the same
artifacts through `.stage.run(store, arguments)`, without any server.
"""

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from prefect import Task
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.filesystems import WritableFileSystem
from prefect.serializers import Serializer
from prefect.settings import PREFECT_TASKS_REFRESH_CACHE
from pydantic import Field

from sentemb_core.errors import SentembError, UsageError
from sentemb_core.store import records, runs
from sentemb_core.store.objects import Store, canonical
from sentemb_core.store.records import Record
from sentemb_core.store.stages import Stage, running
from tasks.execution import walking

P = ParamSpec("P")
R = TypeVar("R")

STAGES: dict[str, Stage] = {}
"""Every stage of this process by its name: who reads a record knows its type from here."""


def stage(
    name: str,
    version: int | str,
    modules: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    numeric: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
) -> "Callable[[Callable[P, R]], StageTask[P, R]]":
    """A function as a cached task (arguments as of `Stage`); `.stage` is what the core knows of it.

    Imports of core modules belong into the body: they, and nothing else of `tasks`, are its code
    fingerprint beside its own source. A helper of another module of `tasks` is not seen: a test
    lists those that may be used, since they change no result (`tests/architecture/test_stages.py`).
    """

    def wrap(function: Callable[P, R]) -> StageTask[P, R]:
        return StageTask(Stage(name, version, function, modules, ignore, numeric, libraries))

    return wrap


class StageTask(Task[P, R]):
    """A stage as Prefect runs and shows it."""

    def __init__(self, stage: Stage, **options: Any) -> None:
        super().__init__(
            fn=_body(stage),
            name=stage.name,
            task_run_name=stage.name,
            version=str(stage.version),
            cache_policy=StagePolicy(stage),
            persist_result=True,
            result_serializer=StageSerializer(stage=registered(stage).name),
            cache_result_in_memory=False,  # a record in memory would outlive its artifacts
            retry_condition_fn=_may_pass_next_time,
            **options,
        )
        # the constructor takes storages that a server knows; this one is ours and local
        self.result_storage = RecordStorage()
        self.stage = stage
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if walker := walking():
            return walker.visit(self.stage, _bound(self.stage, *args, **kwargs))
        return super().__call__(*args, **kwargs)

    def with_options(self, **options: Any) -> Self:
        """The same stage with other options of Prefect: `refresh_cache=True`, `retries=1`."""
        return type(self)(self.stage, **(self._options | options))


def registered(stage: Stage) -> Stage:
    """The stage, whose name no other function may take."""
    known = STAGES.setdefault(stage.name, stage)
    if _origin(known) != _origin(stage):
        raise UsageError(
            f"A stage's name is its alone: {stage.name!r} is {_origin(known)}, and now "
            f"{_origin(stage)}. Rename one."
        )
    STAGES[stage.name] = stage
    return stage


def _origin(stage: Stage) -> str:
    return f"{stage.function.__module__}.{stage.function.__qualname__}"


def _body(stage: Stage) -> Callable[..., Any]:
    @wraps(stage.function)
    def body(*args: Any, **kwargs: Any) -> Any:
        arguments = _bound(stage, *args, **kwargs)
        return stage.run(Store.default(), arguments, refresh=_asked_to_refresh())

    return body


def _bound(stage: Stage, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return dict(inspect.signature(stage.function).bind(*args, **kwargs).arguments)


def _asked_to_refresh() -> bool:
    context = TaskRunContext.get()
    if context is None:
        return False
    asked = context.task.refresh_cache
    return PREFECT_TASKS_REFRESH_CACHE.value() if asked is None else asked


def _may_pass_next_time(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Our own errors tell a person what to change; trying again does not, unless a line broke."""
    error: Any = state.result(raise_on_failure=False)
    broke = isinstance(getattr(error, "__cause__", None), ConnectionError | TimeoutError)
    return broke or not isinstance(error, SentembError)


def working_folder() -> Path:
    """Where the stage that runs keeps its checkpoints; a run after a kill finds them again."""
    return running().work


class StagePolicy(CachePolicy):
    """The core's key as Prefect's. A key that cannot be computed fails the body as well."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def compute_key(
        self,
        task_ctx: TaskRunContext,
        inputs: dict[str, Any],
        flow_parameters: dict[str, Any],
        **kwargs: Any,
    ) -> str:
        return f"{self.stage.name}-{self.stage.key(inputs).digest}"


class StageSerializer(Serializer):
    """JSON of one stage's results; the type to read comes from the stage, not from the file."""

    type: str = Field(default="sentemb-stage", frozen=True)
    stage: str = ""  # the server keeps the type alone, and its answers must be readable

    def dumps(self, obj: Any) -> bytes:
        return canonical(STAGES[self.stage].as_json(obj))

    def loads(self, blob: bytes) -> Any:
        return STAGES[self.stage].from_json(json.loads(blob))


class RecordStorage(WritableFileSystem):
    """The records of the core's store, as the envelopes that Prefect knows."""

    _block_type_name = "sentemb records"

    def read_path(  # pyright: ignore[reportIncompatibleMethodOverride] - Prefect takes either
        self, path: str, _sync: bool = True
    ) -> bytes:
        """The envelope of a sound record.

        Raises:
            KeyError: there is none; Prefect runs the stage then.
        """
        stage, record = _recorded(path)
        runs.note(record, hit=True)
        value = canonical(stage.as_json(stage.result(record))).decode()
        serializer = StageSerializer(stage=stage.name).model_dump()
        metadata = {"serializer": serializer, "storage_key": path}
        return canonical({"metadata": metadata, "result": value})

    def write_path(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        self, path: str, content: bytes, _sync: bool = True
    ) -> None:
        """Nothing: the stage has filed its record already, else something is wrong.

        An exception, which Prefect files under a name of its own, is not kept either.

        Raises:
            ValueError: another serializer wants to write here.
            KeyError: the record is not there.
        """
        if "-" not in path:
            return
        stage, _ = _recorded(path)
        serializer = json.loads(content)["metadata"]["serializer"]
        if serializer != StageSerializer(stage=stage.name).model_dump():
            raise ValueError(f"Records are written by {stage.name!r} alone, found {serializer}.")

    def _resolve_path(self, path: str) -> None:
        """A key is no path."""


def _recorded(path: str) -> tuple[Stage, Record]:
    name, _, key = path.rpartition("-")
    found = records.look_up(Store.default(), name, key) if name in STAGES else None
    if not isinstance(found, Record):
        raise KeyError(f"{path}: {found.reason if found else 'no such stage'}")
    return STAGES[name], found
