"""A stage: a function whose result is filed under a key of all that determines it.

The key is a SHA-256 over name, version, code fingerprint, arguments (a reference counts by what
it contains, a set is sorted), library versions and the numeric tags that a stage asks for. Paths
have no place in it: a `Path` is refused, and an argument that only says where is named in `ignore`.
"""

import hashlib
import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter

from sentemb_core.errors import BadEmbeddingError, OtherDeviceError, UsageError
from sentemb_core.store import disk, records, runs
from sentemb_core.store.fingerprint import code_fingerprint
from sentemb_core.store.locks import file_lock
from sentemb_core.store.machine import DRIVER, default_device, installed, processors
from sentemb_core.store.objects import Store, canonical
from sentemb_core.store.records import Miss, Record, encoder_behind, refs_in
from sentemb_core.types import ArtifactRef, Json

log = logging.getLogger(__name__)

LIBRARIES = ("tokenizers", "torch", "transformers")
"""Whose versions may change any number: part of every key."""


@dataclass(frozen=True)
class StageKey:
    """The digest that names a result, and what it was made of as flat `path: value` parts."""

    digest: str
    parts: Json


SECONDS = "seconds"
"""In a working folder: what the stage had taken at its last checkpoint."""


@dataclass(frozen=True)
class Running:
    """The stage that is being computed: where it writes, and where it may keep checkpoints."""

    store: Store
    stage: str
    key: str
    began: float = field(default_factory=time.perf_counter)

    @property
    def id(self) -> str:
        return f"{self.stage}-{self.key}"

    @property
    def place(self) -> Path:
        """Where `work` lies, or would."""
        return self.store.root / "work" / self.id

    @cached_property
    def before(self) -> float:
        """Seconds that earlier processes spent on what this one goes on with."""
        try:
            return float((self.place / SECONDS).read_text("ascii"))
        except (OSError, ValueError):
            return 0.0

    @property
    def seconds(self) -> float:
        """What the stage has taken so far, in whichever processes."""
        return self.before + time.perf_counter() - self.began

    def save_seconds(self) -> None:
        """At a checkpoint: who goes on from it counts what led to it."""
        disk.write_atomically(self.place / SECONDS, f"{self.seconds}".encode(), self.store.tmp)

    @property
    def work(self) -> Path:
        """A folder that the next run finds if this one is killed; gone when the stage is done."""
        return self.store.work(self.id)


_running: ContextVar[Running] = ContextVar("running")


def running() -> Running:
    """The stage in whose body this is called.

    Raises:
        UsageError: outside of any stage.
    """
    try:
        return _running.get()
    except LookupError:
        raise UsageError("No stage is running here: call the function through Stage.run.") from None


@dataclass(frozen=True)
class Stage:
    """A function with a name, a version, and typed result that is JSON and references.

    Attributes:
        version: Raised by hand when a result changes for a reason that no fingerprint sees.
        modules: Core modules that enter besides (`code_fingerprint`).
        ignore: Arguments, and fields of configs (`config.field`), that change how a result is made,
            not the result.
        numeric: Tags that matter to the last bit: "threads", "device".
        libraries: Distributions beside `LIBRARIES` whose versions may change its numbers.
    """

    name: str
    version: int | str
    function: Callable[..., Any]
    modules: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = {name.partition(".")[0] for name in self.ignore}
        unknown = named - set(inspect.signature(self.function).parameters)
        if unknown or set(self.numeric) - set(NUMERIC):
            raise UsageError(
                f"Stage {self.name!r} ignores arguments it has and asks for tags of "
                f"{sorted(NUMERIC)}; found {sorted(unknown)} and {list(self.numeric)}."
            )
        if "return" not in get_type_hints(self.function):
            raise UsageError(f"Stage {self.name!r} needs a return annotation to read its records.")

    def key(self, arguments: Mapping[str, Any]) -> StageKey:
        """Name the result that these arguments (defaults filled in) lead to.

        Raises:
            TypeError: arguments that the function does not take, or of a type whose value has no
                stable text, a `Path` above all.
        """
        bound = inspect.signature(self.function).bind(**arguments)
        bound.apply_defaults()
        told = {name: value for name, value in bound.arguments.items() if name not in self.ignore}
        counted = normal(told, f"{self.name}.arguments")
        for config, _, setting in (name.partition(".") for name in self.ignore if "." in name):
            del counted[config][setting]
        parts: Json = {
            "stage": self.name,
            "version": str(self.version),
            "code": code_fingerprint(self.function, self.modules),
            "arguments": counted,
            "libraries": library_versions(LIBRARIES + self.libraries),
            "numeric": {tag: NUMERIC[tag](bound.arguments) for tag in self.numeric},
        }
        return StageKey(hashlib.sha256(canonical(parts)).hexdigest(), flat(parts))

    def look_up(self, store: Store, key: StageKey) -> Record | Miss:
        """The usable record of a key, or why there is none."""
        found = records.look_up(store, self.name, key.digest)
        if isinstance(found, Record):
            try:
                self.result(found)
            except ValueError as error:
                return Miss(f"record unusable: {error}")
        return found

    def run(self, store: Store, arguments: Mapping[str, Any], *, refresh: bool = False) -> Any:
        """The result, computed only if no usable record of it exists (or on `refresh`).

        The record is written before this returns, so whatever dies afterwards, a later run
        finds it.
        """
        key = self.key(arguments)
        found = Miss("refresh") if refresh else self.look_up(store, key)
        if isinstance(found, Record):
            runs.note(found, hit=True)
            return self.result(found)
        with file_lock(store.lock(f"{self.name}-{key.digest}")):
            # who waited for another process finds its record now
            found = found if refresh else self.look_up(store, key)
            record = found if isinstance(found, Record) else self._computed(store, key, arguments)
        runs.note(record, hit=record is found)
        return self.result(record)

    def result(self, record: Record) -> Any:
        """A record's result in the type that the function returns.

        Raises:
            ValueError: it is not of that type, or names references that the record does not.
        """
        value = self.from_json(record.result)
        if refs_in(value) != record.outputs:
            raise ValueError("its result and its outputs name different artifacts")
        return value

    def as_json(self, value: Any) -> Any:
        """A result as plain JSON."""
        return TypeAdapter(self.returns).dump_python(value, mode="json")

    def from_json(self, value: Any) -> Any:
        """Plain JSON as a result of the annotated type (`ValueError` if it is none)."""
        return TypeAdapter(self.returns).validate_python(value)

    def _computed(self, store: Store, key: StageKey, arguments: Mapping[str, Any]) -> Record:
        if "device" in self.numeric:
            require_device(key.parts["numeric.device"])
        log.info("%s runs (%s).", self.name, key.digest[:12])
        here = Running(store, self.name, key.digest)
        token = _running.set(here)
        try:
            with disk.storage_errors(store.root):
                value = self.function(**arguments)
        except BadEmbeddingError as error:
            error.encoder = revision_behind(store, refs_in(arguments))
            raise
        finally:
            _running.reset(token)
        record = Record(
            stage=self.name,
            key=key.digest,
            parts=key.parts,
            inputs=refs_in(arguments),
            outputs=refs_in(value),
            result=self.as_json(value),
            seconds=here.seconds,
            created=time.time(),
        )
        records.write(store, record)
        disk.remove(here.place)
        return record

    @property
    def returns(self) -> Any:
        """The type of a result, from the function's annotation."""
        return get_type_hints(self.function)["return"]


def revision_behind(store: Store, refs: list[ArtifactRef]) -> str:
    """The encoder that a stage's inputs are or come from, and how to know more of it."""
    model = encoder_behind(store, refs)
    return f"{model} (`lineage {model.digest[:12]}` says how it was made)" if model else ""


def normal(value: Any, where: str) -> Any:
    """A value as JSON that is the same in every process.

    Raises:
        TypeError: naming `where`, for a type without one stable text.
    """
    if isinstance(value, Enum):
        return normal(value.value, where)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, ArtifactRef):
        return f"{value.kind}:{value.digest}"
    if isinstance(value, BaseModel):
        return {name: normal(part, f"{where}.{name}") for name, part in value}
    if isinstance(value, Mapping):
        return {_text(name, where): normal(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [normal(part, f"{where}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((normal(part, where) for part in value), key=canonical)
    raise TypeError(
        f"{where} is a {type(value).__name__}, which has no place in a cache key: a stage takes "
        "references, frozen models, numbers, strings and collections of them; name an argument "
        "that only says where in `ignore`."
    )


def _text(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where} has the key {name!r}: the keys of a mapping must be strings.")
    return name


def flat(parts: Json, prefix: str = "") -> Json:
    """Nested mappings as one of dotted paths; lists stay values."""
    leaves: Json = {}
    for name, value in parts.items():
        if isinstance(value, dict) and value:
            leaves |= flat(value, f"{prefix}{name}.")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


@cache
def library_versions(names: tuple[str, ...]) -> dict[str, str]:
    """The build (CPU, CUDA) is the tag's matter; of an absent one the body says what to install."""
    return {name: installed(name) or "absent" for name in names}


def threads(arguments: Mapping[str, Any]) -> int:
    """CPU threads: the argument or config field `threads`, else all processors there are for us.

    Whatever OMP_NUM_THREADS says: `tasks.train` sets a training's threads to this number itself.
    """
    return _setting("threads", arguments) or processors()


def device(arguments: Mapping[str, Any]) -> str:
    """Kind of device: of the argument or config field `device`, else what the machine has."""
    named = _setting("device", arguments)
    return str(named).partition(":")[0] if named else default_device()


def require_device(filed: str) -> None:
    """That torch computes on the kind of device that a key names, asked only where it computes.

    Raises:
        OtherDeviceError: a key is made without torch, by the driver that is loaded; torch may not
            get along with it.
    """
    from sentemb_core.encoder.devices import compute_device  # torch, which takes seconds to import

    if (found := compute_device().type) != filed:
        raise OtherDeviceError(
            f"A result is filed under the device that computes it, {filed} by the driver that is "
            f"loaded ({DRIVER}), and torch would compute it on {found}: install a torch that fits "
            "the driver, or set CUDA_VISIBLE_DEVICES= (empty) for the processor."
        )


def _setting(name: str, arguments: Mapping[str, Any]) -> Any:
    configs = [dict(value) for value in arguments.values() if isinstance(value, BaseModel)]
    values = [found[name] for found in (arguments, *configs) if found.get(name) is not None]
    return values[0] if values else None


NUMERIC: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {"threads": threads, "device": device}
