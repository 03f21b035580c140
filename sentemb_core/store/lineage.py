"""The way back from an artifact, through the records of its stages, to its sources."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from pydantic import Field

from sentemb_core.store import records
from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef, Json, Value


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
