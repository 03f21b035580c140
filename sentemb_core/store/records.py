"""Records: what a stage returned, as sealed JSON under its key, and the lineage that they form.

A file that is not exactly of this form is never executed and counts as a miss.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from sentemb_core.errors import CorruptArtifactError, UsageError
from sentemb_core.redaction import first_line
from sentemb_core.store import disk
from sentemb_core.store.objects import Store
from sentemb_core.store.seals import Digest, sealed, unsealed
from sentemb_core.types import ArtifactRef, Json, Value

FIRST_TIME = "first time"
LIMIT = 64 * 1024
"""Bytes of a record: tasks exchange references and small scalars."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class Record(Value):
    """One finished stage: its inputs, outputs, result and time."""

    model_config = ConfigDict(strict=True)

    stage: Name
    key: Digest
    parts: Json = Field(description="The flat parts of the key, for `status` and `lineage`.")
    inputs: list[ArtifactRef]
    outputs: list[ArtifactRef]
    result: Any
    seconds: float = Field(ge=0)
    created: float = Field(description="Seconds since the epoch.")

    @property
    def id(self) -> str:
        return f"{self.stage}/{self.key}"


@dataclass(frozen=True)
class Miss:
    """Why a stage has to run."""

    reason: str


def write(store: Store, record: Record) -> None:
    """Write a record atomically.

    Raises:
        UsageError: the result is not JSON, or the record is larger than 64 KiB.
        StorageError: the disk refuses.
    """
    try:
        content = sealed(record.model_dump())
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"A stage returns finite JSON values and references; the result of {record.stage!r} "
            f"is not: {error}."
        ) from error
    if len(content) > LIMIT:
        raise UsageError(
            f"A record has at most {LIMIT} bytes: references and small scalars. Found "
            f"{len(content)} bytes from stage {record.stage!r}. Write the rest into an artifact."
        )
    disk.write_atomically(store.root / _name(record.stage, record.key), content, store.tmp)


def _name(stage: str, key: str) -> str:
    return f"records/{stage}/{key}.json"


def look_up(store: Store, stage: str, key: str) -> Record | Miss:
    """Return the record of a key, or why no usable record exists.

    A record of the shared store is copied into the home; its artifacts are copied when they are
    read.

    Raises:
        SharedStoreError: the home has no usable record, and the shared store does not answer.
    """
    name = _name(stage, key)
    found = _usable(store, lambda: read(store.root / name))
    if isinstance(found, Record) or store.shared is None:
        return found
    content = store.shared.read(name)
    if content is None:
        return found
    found = _usable(store, lambda: _parsed(content, stage, key))
    if isinstance(found, Record):
        write(store, found)
    return found


def _usable(store: Store, read_record: Callable[[], Record]) -> Record | Miss:
    try:
        record = read_record()
    except FileNotFoundError:
        return Miss(FIRST_TIME)
    except (OSError, ValueError) as error:
        return Miss(f"record unusable: {first_line(error)}")
    reasons = (_unusable(store, ref) for ref in record.outputs)
    return next((Miss(reason) for reason in reasons if reason), record)


def share(
    store: Store, record: Record, is_result: Callable[[Record], bool], *, replace: bool = False
) -> Record:
    """Return the shared store's record of this key, which is this record if it has none.

    The first machine to write a key decides its result, so that all machines agree. Without a
    shared store this record is returned. A record without a result of its stage is replaced, and
    with `replace` any record.

    Raises:
        SharedStoreError: the shared store does not answer, or refuses the record or an artifact.
    """
    if store.shared is None:
        return record
    name, content = _name(record.stage, record.key), sealed(record.model_dump())
    theirs = store.shared.read(name)
    if theirs == content:
        return record
    if theirs is not None and not replace:
        known = _usable(store, lambda: _parsed(theirs, record.stage, record.key))
        if (
            isinstance(known, Record)
            and is_result(known)
            and all(store.is_shared(ref) for ref in known.outputs)
        ):
            write(store, known)
            return known
    for ref in record.outputs:
        store.share(ref)
    if theirs is not None or replace:
        store.shared.write(name, content)
    elif not store.shared.create(name, content):  # another machine was faster
        return share(store, record, is_result)
    return record


def read(path: Path) -> Record:
    """Return the record in a file. Its references are not verified.

    Raises:
        ValueError: another form or serializer, a broken seal, or the name of another record.
        OSError: it cannot be read.
    """
    if disk.size(path) > LIMIT:
        raise ValueError(f"larger than {LIMIT} bytes")
    return _parsed(disk.read(path), path.parent.name, path.stem)


def _parsed(content: bytes, stage: str, key: str) -> Record:
    record = Record.model_validate(unsealed(content))
    if (stage, key) != (record.stage, record.key):
        raise ValueError(f"it belongs to {record.id}")
    return record


def all_records(store: Store, stage: str = "*") -> list[Record]:
    """Return all readable records, of one stage or of all, in the order of their creation."""
    return scan(store, f"{stage}/*.json")[0]


def scan(store: Store, pattern: str = "*/*") -> tuple[list[Record], list[Path]]:
    """Return the records in files of this pattern, by their creation, and the unreadable files."""
    readable: list[Record] = []
    unreadable: list[Path] = []
    for path in sorted((store.root / "records").glob(pattern)):
        try:
            readable.append(read(path))
        except (OSError, ValueError):
            unreadable.append(path)
    return sorted(readable, key=lambda record: (record.created, record.id)), unreadable


def refs_in(value: Any) -> list[ArtifactRef]:
    """Return all references in nested models, mappings and sequences, each once, in order."""
    return list(dict.fromkeys(_refs_in(value)))


def _refs_in(value: Any) -> Iterator[ArtifactRef]:
    if isinstance(value, ArtifactRef):
        yield value
    elif isinstance(value, BaseModel):
        for _, part in value:
            yield from _refs_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _refs_in(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _refs_in(part)


def _unusable(store: Store, ref: ArtifactRef) -> str | None:
    """Return why an artifact cannot be used; None if it can."""
    was_present = os.path.lexists(store.folder(ref.digest))  # raises nothing
    try:
        store.verify(ref)
    except CorruptArtifactError:
        if store.is_shared(ref):
            return None
        set_aside = was_present or any(store.quarantine.glob(f"{ref.digest}-*"))
        return f"artifact {ref} {'corrupt' if set_aside else 'deleted'}"
    except OSError as error:
        return f"artifact {ref} unreadable: {first_line(error)}"
    return None


class Origin(Value):
    """How an artifact was made. A source has no stage."""

    ref: ArtifactRef
    stage: str | None = None
    key: str | None = None
    code: str | None = None
    parameters: Json = Field(default={})
    inputs: list[ArtifactRef] = Field(default=[])
    created: float | None = None


class Lineage(Value):
    """An artifact, first, and all its ancestors, each once."""

    origins: list[Origin]


def lineage(store: Store, ref: ArtifactRef) -> Lineage:
    """Return the way from an artifact back to its sources, breadth first.

    If several stages made equal bytes, the earliest record counts. Records that also read these
    bytes do not count.
    """
    makers: dict[ArtifactRef, Record] = {}
    for record in all_records(store):
        for output in record.outputs:
            if output not in record.inputs:
                makers.setdefault(output, record)
    origins: dict[str, Origin] = {}
    todo = [ref]
    while todo:
        current = todo.pop(0)
        if current.digest in origins:
            continue
        origins[current.digest] = _origin(current, makers.get(current))
        todo += origins[current.digest].inputs
    return Lineage(origins=list(origins.values()))


def encoder_behind(store: Store, refs: Sequence[ArtifactRef]) -> ArtifactRef | None:
    """Return the encoder among these artifacts, else the nearest encoder among their ancestors."""
    before = (origin.ref for ref in refs for origin in lineage(store, ref).origins)
    return next((ref for ref in chain(refs, before) if ref.kind == "model"), None)


def _origin(ref: ArtifactRef, record: Record | None) -> Origin:
    """Return the origin; its parameters are arguments without references, and numeric tags."""
    if record is None:
        return Origin(ref=ref)
    parameters = {
        name.removeprefix("arguments."): value
        for name, value in record.parts.items()
        if name.startswith(("arguments.", "numeric."))
        and not (isinstance(value, str) and len(value.partition(":")[2]) == 64)
    }
    return Origin(
        ref=ref,
        stage=record.stage,
        key=record.key,
        code=record.parts.get("code"),
        parameters=parameters,
        inputs=record.inputs,
        created=record.created,
    )
