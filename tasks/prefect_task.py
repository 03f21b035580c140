"""How Prefect runs a stage: as a task that is cached by the records of our store.

Prefect asks `StagePolicy` for a key and `RecordStorage` for the record of that key. The storage
reads only records of our store (JSON, with every artifact verified) and wraps them for Prefect. So
no file can choose the code that reads it. A record that the store refuses is a miss. The task's
body looks up again, computes under a lock and writes the record itself; what Prefect writes
afterwards is checked and dropped. So `.stage.run(store, arguments)` gives the same artifacts
without any server.
"""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from prefect import Task
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.filesystems import WritableFileSystem
from prefect.serializers import Serializer
from prefect.settings import PREFECT_TASKS_REFRESH_CACHE
from pydantic import Field

from sentemb_core.errors import SentembError
from sentemb_core.store import records, runs
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from sentemb_core.store.seals import canonical
from sentemb_core.store.stages import Stage
from tasks.stage import STAGES, bound
from tasks.workers import run_stage


def prefect_task(stage: Stage, options: dict[str, Any]) -> Task[..., Any]:
    """Return the stage as Prefect's task, with further options of Prefect."""
    task = Task(
        fn=_body(stage),
        name=stage.name,
        task_run_name=stage.name,
        version=str(stage.version),
        cache_policy=StagePolicy(stage),
        persist_result=True,
        result_serializer=StageSerializer(stage=stage.name),
        cache_result_in_memory=False,  # a record in memory would outlive its artifacts
        retry_condition_fn=_may_pass_next_time,
        **options,
    )
    # the constructor takes only storages that a server knows; ours is local
    task.result_storage = RecordStorage()
    return task


def _body(stage: Stage) -> Callable[..., Any]:
    @wraps(stage.function)
    def body(*args: Any, **kwargs: Any) -> Any:
        return run_stage(stage, bound(stage, *args, **kwargs), refresh=_refreshes())

    return body


def _refreshes() -> bool:
    """Whether Prefect runs this task with `refresh_cache`, by its options or its settings."""
    context = TaskRunContext.get()
    if context is None:
        return False
    option = context.task.refresh_cache
    return PREFECT_TASKS_REFRESH_CACHE.value() if option is None else option


def _may_pass_next_time(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:
    """Whether a retry helps: our own errors need a person, unless the network broke."""
    error: Any = state.result(raise_on_failure=False)
    network = isinstance(getattr(error, "__cause__", None), ConnectionError | TimeoutError)
    return network or not isinstance(error, SentembError)


class StagePolicy(CachePolicy):
    """The store's key as Prefect's. If it cannot be computed, the task's body fails as well."""

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
    stage: str = ""  # the server keeps only the type, and must be able to read its answers

    def dumps(self, obj: Any) -> bytes:
        return canonical(STAGES[self.stage].as_json(obj))

    def loads(self, blob: bytes) -> Any:
        return STAGES[self.stage].from_json(json.loads(blob))


class RecordStorage(WritableFileSystem):
    """The records of our store, in the envelopes that Prefect reads."""

    _block_type_name = "sentemb records"

    def read_path(  # pyright: ignore[reportIncompatibleMethodOverride] - Prefect takes either
        self, path: str, _sync: bool = True
    ) -> bytes:
        """The envelope of a valid record; without one (KeyError) Prefect runs the stage."""
        stage, record = _record_at(path)
        record = stage.share(Store.default(), record)
        runs.note(record, hit=True)
        value = canonical(stage.as_json(stage.result(record))).decode()
        serializer = StageSerializer(stage=stage.name).model_dump()
        metadata = {"serializer": serializer, "storage_key": path}
        return canonical({"metadata": metadata, "result": value})

    def write_path(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        self, path: str, content: bytes, _sync: bool = True
    ) -> None:
        """Write nothing: the stage has written its record, or something is wrong.

        An exception, which Prefect writes under a name of its own, is dropped. An absent record is
        a KeyError, another serializer a ValueError.
        """
        if "-" not in path:
            return
        stage, _ = _record_at(path)
        serializer = json.loads(content)["metadata"]["serializer"]
        if serializer != StageSerializer(stage=stage.name).model_dump():
            raise ValueError(f"Only {stage.name!r} writes its records, found {serializer}.")

    def _resolve_path(self, path: str) -> None:
        """A key is no path."""


def _record_at(path: str) -> tuple[Stage, Record]:
    name, _, key = path.rpartition("-")
    record = records.look_up(Store.default(), name, key) if name in STAGES else None
    if not isinstance(record, Record):
        raise KeyError(f"{path}: {record.reason if record else 'no such stage'}")
    return STAGES[name], record
