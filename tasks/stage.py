"""`@stage`: a function whose results are cached by the records of our store.

The key of a record is computed by `Stage.key` in `sentemb_core/store/stages.py`. It has the stage's
name, version, code, arguments and libraries, and where it matters, threads and device.

Prefect runs a stage as a task (`prefect_task.py`). A dry run and this process run it without
Prefect (`execution.py`), so Prefect is imported only where it runs a stage.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

from sentemb_core.errors import UsageError
from sentemb_core.store.stages import Stage, running
from sentemb_core.types import ArtifactRef
from tasks.execution import as_one_stage, current_executor
from tasks.shards import calls_by_shard, results_by_shard, set_parts

P = ParamSpec("P")
R = TypeVar("R")

STAGES: dict[str, Stage] = {}
"""Every stage of this process by its name, from which the type of a record's result is known."""


def stage(
    name: str,
    version: int | str,
    modules: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    numeric: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
    by_shard: tuple[str, ...] = (),
    own: "Own | None" = None,
    join: "Join | None" = None,
) -> "Callable[[Callable[P, R]], StageTask[P, R]]":
    """Make a function a cached task. The first arguments are those of `Stage`.

    With `join`, the arguments `by_shard` are taken shard by shard (`tasks/shards.py`). `own` gives
    each shard the arguments that differ from those of the whole call in another way. `join` gets
    the results and the arguments of the whole call.

    Import core modules inside the function's body: the code fingerprint is the body and what it
    imports from the core. It does not follow helpers of other modules of `tasks`; those that may
    be used change no result (`tests/architecture/test_stages.py` lists them).
    """

    def wrap(function: Callable[P, R]) -> StageTask[P, R]:
        known = Stage(name, version, function, modules, ignore, numeric, libraries)
        return StageTask(known, Shards(by_shard, own, join) if join else None)

    return wrap


Own = Callable[[dict[str, Any], int], list[dict[str, Any]]]
Join = Callable[[list[ArtifactRef], dict[str, Any]], ArtifactRef]


@dataclass(frozen=True)
class Shards:
    """How a stage runs shard by shard; see `stage`."""

    names: tuple[str, ...]
    own: Own | None
    join: Join


class StageTask(Generic[P, R]):
    """A stage that Prefect, a dry run or this process runs; `.stage` is the same without them."""

    def __init__(self, stage: Stage, shards: Shards | None = None, **options: Any) -> None:
        self.stage = registered(stage)
        self._shards = shards
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._shards:
            arguments = bound(self.stage, *args, **kwargs)
            if calls := calls_by_shard(self._shards.names, arguments):
                return cast("R", self._by_shard(self._shards, arguments, calls))
        return self._run(*args, **kwargs)

    def _by_shard(
        self, shards: Shards, arguments: dict[str, Any], calls: list[dict[str, Any]]
    ) -> ArtifactRef:
        """Return the join of the results of each shard."""
        if shards.own:
            own = shards.own(arguments, len(calls))
            calls = [call | each for call, each in zip(calls, own, strict=True)]
        with as_one_stage(self.stage, len(calls)):
            parts = results_by_shard(self.stage, calls, lambda call: cast("Any", self._run)(**call))
            return set_parts(shards.join(parts, arguments), parts)

    def _run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if executor := current_executor():
            return executor.run_stage(self.stage, bound(self.stage, *args, **kwargs))
        return cast("R", self.task(*args, **kwargs))

    @cached_property
    def task(self) -> Any:
        """Return the stage as Prefect's task."""
        from tasks.prefect_task import prefect_task

        return prefect_task(self.stage, self._options)

    def with_options(self, **options: Any) -> Self:
        """The same stage with other options of Prefect, such as `retries=1`."""
        return type(self)(self.stage, self._shards, **(self._options | options))


def registered(stage: Stage) -> Stage:
    """Add the stage to `STAGES`; E001 if another function has this name."""
    known = STAGES.setdefault(stage.name, stage)
    if _origin(known) != _origin(stage):
        raise UsageError(
            f"Stage names must be unique: {stage.name!r} is {_origin(known)}, and now "
            f"{_origin(stage)}. Rename one of them."
        )
    STAGES[stage.name] = stage
    return stage


def _origin(stage: Stage) -> str:
    return f"{stage.function.__module__}.{stage.function.__qualname__}"


def bound(stage: Stage, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by their names."""
    return dict(inspect.signature(stage.function).bind(*args, **kwargs).arguments)


def working_folder() -> Path:
    """The folder for checkpoints of the running stage; a run after a kill finds it again."""
    return running().work
