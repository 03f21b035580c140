"""Stages: functions whose results are recorded under a key of everything that determines them.

The key is a SHA-256 over name, version, code fingerprint, arguments, library versions and the
numeric tags of the stage. A reference counts by its content, and a set is sorted. A `Path` is
refused: arguments that only name a place are listed in `ignore`.
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
from sentemb_core.redaction import first_line
from sentemb_core.store import disk, records, runs
from sentemb_core.store.fingerprint import code_fingerprint
from sentemb_core.store.machine import DRIVER, default_device, installed, processors
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Miss, Record, encoder_behind, refs_in
from sentemb_core.store.seals import canonical, sealed, unsealed
from sentemb_core.termination import check, cleaning_up
from sentemb_core.types import ArtifactRef, Json

log = logging.getLogger(__name__)

LIBRARIES = ("numpy", "tokenizers", "torch", "transformers")
"""Libraries whose versions may change any number, or any draw: part of every key."""


@dataclass(frozen=True)
class StageKey:
    """The digest that names a result, and its flat parts, `path: value`."""

    digest: str
    parts: Json


SECONDS = "seconds"
"""File in a working folder with the stage's seconds at its last checkpoint."""


@dataclass(frozen=True)
class Running:
    """The stage being computed, its store and its working folder."""

    store: Store
    stage: str
    key: str
    began: float = field(default_factory=time.perf_counter)

    @property
    def id(self) -> str:
        return f"{self.stage}-{self.key}"

    @property
    def folder(self) -> Path:
        """Return the path of `work`, which may be absent."""
        return self.store.root / "work" / self.id

    @cached_property
    def earlier_seconds(self) -> float:
        """Return the seconds that earlier processes spent up to the last checkpoint."""
        try:
            return float(unsealed(disk.read(self.folder / SECONDS)))
        except disk.ABSENCE:
            return 0.0
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is broken: %s", self.folder / SECONDS, first_line(error))
            return 0.0

    @property
    def seconds(self) -> float:
        """Return the stage's seconds so far, over all its processes."""
        return self.earlier_seconds + time.perf_counter() - self.began

    def save_seconds(self) -> None:
        """Save the seconds so far. Call it at each checkpoint."""
        disk.write_atomically(self.folder / SECONDS, sealed(self.seconds), self.store.tmp)

    @property
    def work(self) -> Path:
        """Create and return the working folder, which is removed when the stage is done."""
        return self.store.work(self.id)


_running: ContextVar[Running] = ContextVar("running")


def running() -> Running:
    """Return the stage whose body calls this.

    Raises:
        UsageError: no stage is running.
    """
    try:
        return _running.get()
    except LookupError:
        raise UsageError("No stage is running: call the function through Stage.run.") from None


@dataclass(frozen=True)
class Stage:
    """A function with a name, a version and a typed result of JSON values and references.

    Attributes:
        version: Raised by hand when a result changes for a reason outside the fingerprint.
        modules: Further core modules that enter the key (`code_fingerprint`).
        ignore: Arguments, and fields of configs (`config.field`), that do not change the result.
        numeric: Tags that change the last bits of a result: "threads", "device".
        libraries: Distributions besides `LIBRARIES` whose versions may change the result.
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
                f"Stage {self.name!r} may ignore its own arguments only; found {sorted(unknown)}. "
                f"Numeric tags are {sorted(NUMERIC)}; found {list(self.numeric)}."
            )
        if "return" not in get_type_hints(self.function):
            raise UsageError(f"Stage {self.name!r} needs a return annotation to read its records.")

    def key(self, arguments: Mapping[str, Any]) -> StageKey:
        """Return the key of the result for these arguments, with defaults filled in.

        Raises:
            TypeError: arguments that the function does not take, or a value without a stable text,
                such as a `Path`.
        """
        bound = inspect.signature(self.function).bind(**arguments)
        bound.apply_defaults()
        counted = {
            name: value for name, value in bound.arguments.items() if name not in self.ignore
        }
        normalised = normal(counted, f"{self.name}.arguments")
        for config, _, setting in (name.partition(".") for name in self.ignore if "." in name):
            del normalised[config][setting]
        parts: Json = {
            "stage": self.name,
            "version": str(self.version),
            "code": code_fingerprint(self.function, self.modules),
            "arguments": normalised,
            "libraries": library_versions(LIBRARIES + self.libraries),
            "numeric": {tag: NUMERIC[tag](bound.arguments) for tag in self.numeric},
        }
        return StageKey(hashlib.sha256(canonical(parts)).hexdigest(), flat(parts))

    def look_up(self, store: Store, key: StageKey) -> Record | Miss:
        """Return the usable record of a key, or why no usable record exists."""
        record = records.look_up(store, self.name, key.digest)
        if isinstance(record, Record):
            try:
                self.result(record)
            except ValueError as error:
                return Miss(f"record unusable: {error}")
        return record

    def run(
        self,
        store: Store,
        arguments: Mapping[str, Any],
        *,
        refresh: bool = False,
        compute: "Compute | None" = None,
    ) -> Any:
        """Return the result; compute it if no usable record exists, or on `refresh`.

        The record is written before this returns, so a later run finds it whatever happens next.
        `compute` replaces `Stage.compute`: a worker computes.
        """
        compute = compute or Stage.compute
        key = self.key(arguments)
        known = Miss("refresh") if refresh else self.look_up(store, key)
        check()
        if isinstance(known, Record):
            known = self.share(store, known)
            runs.note(known, hit=True)
            return self.result(known)
        with store.claim(f"{self.name}-{key.digest}"):
            # another process may have written the record during the wait
            known = known if refresh else self.look_up(store, key)
            record = known if isinstance(known, Record) else compute(self, store, key, arguments)
            hit = record is known
            record = self.share(store, record, replace=refresh)
        runs.note(record, hit=hit)
        return self.result(record)

    def share(self, store: Store, record: Record, *, replace: bool = False) -> Record:
        """Return the record on which all machines agree (`records.share`)."""
        return records.share(store, record, self._has_result, replace=replace)

    def _has_result(self, record: Record) -> bool:
        try:
            self.result(record)
        except ValueError:
            return False
        return True

    def result(self, record: Record) -> Any:
        """Return a record's result in the type that the function returns.

        Raises:
            ValueError: it has another type, or other references than the record's outputs.
        """
        value = self.from_json(record.result)
        if refs_in(value) != record.outputs:
            raise ValueError("its result and its outputs name different artifacts")
        return value

    def as_json(self, value: Any) -> Any:
        """Return a result as plain JSON."""
        return TypeAdapter(self.returns).dump_python(value, mode="json")

    def from_json(self, value: Any) -> Any:
        """Return plain JSON as a result of the annotated type (`ValueError` if it has another)."""
        return TypeAdapter(self.returns).validate_python(value)

    def compute(self, store: Store, key: StageKey, arguments: Mapping[str, Any]) -> Record:
        """Call the function, and return the record of its result, which is stored."""
        if "device" in self.numeric:
            require_device(key.parts["numeric.device"])
        log.info("%s runs (%s).", self.name, key.digest[:12])
        stage = Running(store, self.name, key.digest)
        token = _running.set(stage)
        try:
            with disk.storage_errors(store.root):
                value = self.function(**arguments)
        except BadEmbeddingError as error:
            if model := encoder_behind(store, refs_in(arguments)):
                error.encoder = f"{model} (`lineage {model.digest[:12]}` shows how it was made)"
            raise
        except BaseException:
            cleaning_up()
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
            seconds=stage.seconds,
            created=time.time(),
        )
        records.write(store, record)
        disk.remove(stage.folder)
        return record

    @property
    def returns(self) -> Any:
        """Return the type of a result, from the function's annotation."""
        return get_type_hints(self.function)["return"]


Compute = Callable[[Stage, Store, StageKey, Mapping[str, Any]], Record]
"""What computes a stage whose claim is held, and returns its record."""


def normal(value: Any, where: str) -> Any:
    """Return a value as JSON that is the same in every process.

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
        counted = {name: part for name, part in value if not _excluded(value, name, part)}
        return {name: normal(part, f"{where}.{name}") for name, part in counted.items()}
    if isinstance(value, Mapping):
        return {_text(name, where): normal(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [normal(part, f"{where}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((normal(part, where) for part in value), key=canonical)
    raise TypeError(
        "A cache key holds references, frozen models, numbers, strings and collections of them; "
        f"{where} is a {type(value).__name__}. List an argument that names a place in `ignore`."
    )


def _excluded(model: BaseModel, name: str, value: Any) -> bool:
    """Whether a field does not count with this value (`exclude_if`): a setting added later."""
    excludes = type(model).model_fields[name].exclude_if
    return excludes is not None and excludes(value)


def _text(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"The keys of a mapping must be strings; {where} has the key {name!r}.")
    return name


def flat(parts: Json, prefix: str = "") -> Json:
    """Return nested mappings as one mapping of dotted paths; lists stay values."""
    leaves: Json = {}
    for name, value in parts.items():
        if isinstance(value, dict) and value:
            leaves |= flat(value, f"{prefix}{name}.")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


@cache
def library_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return versions without their build (CPU, CUDA), which the tag `device` covers."""
    return {name: installed(name) or "absent" for name in names}


def threads(arguments: Mapping[str, Any]) -> int:
    """Return the argument or config field `threads`, else the number of usable processors.

    OMP_NUM_THREADS does not count: `tasks.train` sets a training's threads to this number.
    """
    return _setting("threads", arguments) or processors()


def device(arguments: Mapping[str, Any]) -> str:
    """Return the kind of the argument or config field `device`, else of the machine's device."""
    named = _setting("device", arguments)
    return str(named).partition(":")[0] if named else default_device()


def require_device(expected: str) -> None:
    """Check before a computation that torch uses the kind of device that the key names.

    Raises:
        OtherDeviceError: the key follows the loaded driver, but torch cannot use that driver.
    """
    from sentemb_core.encoder.devices import compute_device  # torch, which takes seconds to import

    if (actual := compute_device().type) != expected:
        raise OtherDeviceError(
            f"A result's key names the device that computes it: {expected}, by the loaded driver "
            f"({DRIVER}). Torch would compute on {actual}. Install a torch for this driver, or set "
            "CUDA_VISIBLE_DEVICES= (empty) to use the processor."
        )


def _setting(name: str, arguments: Mapping[str, Any]) -> Any:
    configs = [dict(value) for value in arguments.values() if isinstance(value, BaseModel)]
    values = [values[name] for values in (arguments, *configs) if values.get(name) is not None]
    return values[0] if values else None


NUMERIC: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {"threads": threads, "device": device}
