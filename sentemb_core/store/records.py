"""What a stage returned, filed under its key: JSON of our own form, or a miss.

A record never decides how it is read. It names its serializer only so that a file of another
origin is recognised; whatever is not exactly of this form runs nothing and is a miss.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sentemb_core.errors import CorruptArtifactError, UsageError
from sentemb_core.redaction import first_line
from sentemb_core.store import disk, records
from sentemb_core.store.objects import Store, canonical
from sentemb_core.types import ArtifactRef, Json, Value

SERIALIZER = "sentemb-json"
FIRST_TIME = "first time"
LIMIT = 64 * 1024
"""Bytes of a record: tasks exchange references and small scalars."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Record(Value):
    """One finished stage: what went in, what came out, how long it took."""

    model_config = ConfigDict(strict=True)

    stage: Name
    key: Key
    parts: Json = Field(description="What the key was made of, flat, for `status` and `lineage`.")
    inputs: list[ArtifactRef]
    outputs: list[ArtifactRef]
    result: Any
    seconds: float = Field(ge=0)
    created: float = Field(description="Seconds since the epoch.")

    @property
    def id(self) -> str:
        return f"{self.stage}/{self.key}"


class Envelope(Value):
    """A record on the disk: a flipped bit in a score must not go unseen, so it is sealed."""

    model_config = ConfigDict(strict=True)

    serializer: Literal["sentemb-json"]
    sha256: Key
    record: Json


@dataclass(frozen=True)
class Miss:
    """Why a stage has to run."""

    reason: str


def folder(store: Store, stage: str) -> Path:
    return store.root / "records" / stage


def write(store: Store, record: Record) -> None:
    """File a record, atomically.

    Raises:
        UsageError: the result is not JSON, or the record is larger than 64 KiB.
        StorageError: the disk refuses.
    """
    content = _sealed(record)
    if len(content) > LIMIT:
        raise UsageError(
            f"A stage returns references and small scalars, a record of at most {LIMIT} bytes; "
            f"{record.stage!r} made {len(content)}. Write the rest into an artifact."
        )
    path = folder(store, record.stage) / f"{record.key}.json"
    disk.write_atomically(path, content, store.tmp)


def _sealed(record: Record) -> bytes:
    body = record.model_dump()
    try:
        seal = hashlib.sha256(canonical(body)).hexdigest()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"A stage returns finite JSON values and references; the result of {record.stage!r} "
            f"is not: {error}."
        ) from error
    return canonical({"serializer": SERIALIZER, "sha256": seal, "record": body})


def look_up(store: Store, stage: str, key: str) -> Record | Miss:
    """The record of this key, or the reason why there is none that can be used. Never raises."""
    path = folder(store, stage) / f"{key}.json"
    try:
        record = read(path)
    except FileNotFoundError:
        return Miss(FIRST_TIME)
    except (OSError, ValueError) as error:
        return Miss(f"record unusable: {first_line(error)}")
    for ref in record.outputs:
        if reason := _unusable(store, ref):
            return Miss(reason)
    return record


def read(path: Path) -> Record:
    """The record in a file, its references not yet verified.

    Raises:
        ValueError: another form, another serializer, a broken seal, or filed under a wrong name.
        OSError: it cannot be read.
    """
    if disk.size(path) > LIMIT:
        raise ValueError(f"larger than {LIMIT} bytes")
    envelope = Envelope.model_validate_json(disk.read(path))
    if hashlib.sha256(canonical(envelope.record)).hexdigest() != envelope.sha256:
        raise ValueError("its content does not have its SHA-256")
    record = Record.model_validate(envelope.record)
    if (path.parent.name, path.stem) != (record.stage, record.key):
        raise ValueError(f"it belongs to {record.id}")
    return record


def every(store: Store, stage: str = "*") -> Iterator[Record]:
    """All readable records, of one stage or of all, in the order of their creation."""
    found: list[Record] = []
    for path in (store.root / "records").glob(f"{stage}/*.json"):
        try:
            found.append(read(path))
        except (OSError, ValueError):
            continue
    yield from sorted(found, key=lambda record: (record.created, record.id))


def refs_in(value: Any) -> list[ArtifactRef]:
    """All references in nested models, mappings and sequences, each once, in order."""
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
    """Why an artifact cannot be used, if so."""
    was_here = os.path.lexists(store.folder(ref.digest))  # raises nothing
    try:
        store.verify(ref, deep=False)
    except CorruptArtifactError:
        set_aside = was_here or any(store.quarantine.glob(f"{ref.digest}-*"))
        return f"artifact {ref} {'corrupt' if set_aside else 'deleted'}"
    except OSError as error:
        return f"artifact {ref} unreadable: {first_line(error)}"
    return None


class Origin(Value):
    """How an artifact came to be; a source has no stage."""

    ref: ArtifactRef
    stage: str | None = None
    key: str | None = None
    code: str | None = None
    parameters: Json = Field(default={})
    inputs: list[ArtifactRef] = Field(default=[])
    created: float | None = None


class Lineage(Value):
    """All ancestors of an artifact, each told once; the first one is the artifact itself."""

    origins: list[Origin]


def lineage(store: Store, ref: ArtifactRef) -> Lineage:
    """Walk from an artifact back to its sources (breadth first).

    Where several stages made equal bytes, the earliest record is told.
    """
    makers = first_makers(store)
    origins: dict[str, Origin] = {}
    todo = [ref]
    while todo:
        current = todo.pop(0)
        if current.digest in origins:
            continue
        origins[current.digest] = origin(current, makers.get(current))
        todo += origins[current.digest].inputs
    return Lineage(origins=list(origins.values()))


def encoder_behind(store: Store, refs: Sequence[ArtifactRef]) -> ArtifactRef | None:
    """The encoder among these artifacts, else the nearest one that led to them, if any."""
    before = (origin.ref for ref in refs for origin in lineage(store, ref).origins)
    return next((ref for ref in chain(refs, before) if ref.kind == "model"), None)


def first_makers(store: Store) -> dict[ArtifactRef, records.Record]:
    """For every artifact the earliest record that gave it out without taking it in."""
    makers: dict[ArtifactRef, records.Record] = {}
    for record in records.every(store):
        for ref in record.outputs:
            if ref not in record.inputs:
                makers.setdefault(ref, record)
    return makers


def origin(ref: ArtifactRef, record: records.Record | None) -> Origin:
    """What the record of its maker tells about an artifact."""
    if record is None:
        return Origin(ref=ref)
    return Origin(
        ref=ref,
        stage=record.stage,
        key=record.key,
        code=record.parts.get("code"),
        parameters=parameters(record.parts),
        inputs=record.inputs,
        created=record.created,
    )


def parameters(parts: Json) -> Json:
    """The parts of a key that a person chose: arguments other than references, and numeric tags."""
    return {
        name.removeprefix("arguments."): value
        for name, value in parts.items()
        if name.startswith(("arguments.", "numeric.")) and not is_reference(value)
    }


def is_reference(value: Any) -> bool:
    return isinstance(value, str) and len(value.partition(":")[2]) == 64
