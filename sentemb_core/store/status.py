"""What a run would do, stage by stage, and why, before anything runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sentemb_core.store import records
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Miss, Record
from sentemb_core.store.stages import StageKey
from sentemb_core.types import Json

SHOWN = 3
"""Differences told in one line."""

OTHER_INPUTS = "first time with these inputs"

SUBJECTS = (
    "arguments.task.name",
    "arguments.system",
    "arguments.config.name",
    "arguments.config.method.name",
)
"""What a stage was asked about: a task, a fixed row, a start encoder, a method to train by."""

DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Status:
    """One line of `status`; `part` is the round, the cell or the training that it belongs to.

    SAME is one that was told before, by the part that `why` names, and happens once. REFUSED is a
    part of a table, by its error, and no stage of it.
    """

    stage: str
    verdict: Literal["HIT", "MISS", "AFTER", "SAME", "REFUSED"]
    why: str = ""
    part: str = ""

    @property
    def would_run(self) -> bool:
        return self.verdict in ("MISS", "AFTER")

    def __str__(self) -> str:
        if self.verdict == "AFTER":
            return f"{self.stage}: after {self.why}"
        return f"{self.stage}: {self.verdict}{f' ({self.why})' if self.why else ''}"


class Earlier:
    """What the keys of recorded stages were made of; those of one name are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts: dict[str, list[Json]] = {}

    def parts(self, stage: str) -> list[Json]:
        """In the order of their creation."""
        if stage not in self._parts:
            self._parts[stage] = [record.parts for record in records.every(self._store, stage)]
        return self._parts[stage]


def status_of(stage: str, key: StageKey, found: Record | Miss, earlier: Earlier) -> Status:
    """HIT, or MISS and why: the artifact's fate, or the difference to the nearest record."""
    if isinstance(found, Record):
        return Status(stage, "HIT")
    why = found.reason
    if why == records.FIRST_TIME:
        why = nearest_difference(earlier.parts(stage), key)
    return Status(stage, "MISS", why)


def nearest_difference(earlier: Sequence[Json], key: StageKey) -> str:
    """What sets a key apart from the most similar record of its stage (the latest of equals).

    A record of other data alone, none of whose inputs are the key's, explains nothing; nor does
    one of another task or method, however much else they share.
    """
    known = [
        parts
        for parts in earlier
        if all(parts.get(subject) == key.parts.get(subject) for subject in SUBJECTS)
    ]
    inputs = inputs_of(key.parts)
    told = [
        differences(parts, key.parts) for parts in known if not inputs or inputs & inputs_of(parts)
    ]
    if not told:
        return OTHER_INPUTS if known else records.FIRST_TIME
    fewest = min(reversed(told), key=len)
    rest = len(fewest) - SHOWN
    return ", ".join(fewest[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def inputs_of(parts: Json) -> set[str]:
    """Digests of the artifacts and files among a key's arguments."""
    values = [str(value) for name, value in parts.items() if name.startswith("arguments")]
    return {digest for value in values for digest in DIGEST.findall(value)}


def differences(old: Json, new: Json) -> list[str]:
    """Sorted sentences such as `arguments.config.top_k 1 -> 2`; code first."""
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    named = [name for name in changed if name != "code"]
    code = ["code changed"] if "code" in changed else []
    return code + [f"{name} {short(old.get(name))} -> {short(new.get(name))}" for name in named]


def short(value: Any) -> str:
    """A value in a few characters; of a reference, kind and the beginning of its digest."""
    text = str(value)
    kind, _, digest = text.partition(":")
    if len(digest) == 64:
        return f"{kind}:{digest[:12]}"
    return text if len(text) <= 40 else f"{text[:37]}..."
