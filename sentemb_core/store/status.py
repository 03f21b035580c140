"""Status: which stages a run would compute, and why, before anything runs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sentemb_core.formats import counted
from sentemb_core.store import records
from sentemb_core.store.records import Miss, Record
from sentemb_core.store.stages import StageKey
from sentemb_core.types import Json

SHOWN = 3
"""Differences in one line."""

RUNS_NOW = "runs now"

OTHER_INPUTS = "first time with these inputs"

SUBJECTS = (
    "arguments.task.name",
    "arguments.system",
    "arguments.config.name",
    "arguments.config.method.name",
)
"""Subjects of a stage: its task, system, start encoder and training method."""

DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Status:
    """One line of `status`; `part` names the round, the cell or the training of the stage.

    AFTER: the stage waits for another stage. SAME: the part in `why` already lists this stage.
    REFUSED: a part of a table fails with the error in `why`.
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


def status_of(
    stage: str, key: StageKey, result: Record | Miss, earlier: Callable[[str], Sequence[Record]]
) -> Status:
    """Return HIT, or MISS with the lost artifact or the difference to the most similar record.

    `earlier` returns the records of a stage in the order of their creation.
    """
    if isinstance(result, Record):
        return Status(stage, "HIT")
    why = result.reason
    if why == records.FIRST_TIME:
        why = nearest_difference([record.parts for record in earlier(stage)], key)
    return Status(stage, "MISS", why)


def status_of_shards(stage: str, calls: Sequence[Status], shards: int) -> Status:
    """Return one status for the calls of a stage, one a shard, and of what joins their results."""
    parts = calls[:shards]
    run = [number for number, status in enumerate(parts, 1) if status.would_run]
    if not run:
        return replace(parts[0], stage=stage, why=parts[0].why or counted(shards, "shard"))
    shown = ", ".join(map(str, run[:SHOWN])) + (", ..." if len(run) > SHOWN else "")
    first = next((parts[k - 1] for k in run if parts[k - 1].why == RUNS_NOW), parts[run[0] - 1])
    if first.verdict == "AFTER":
        return replace(first, stage=stage)
    return replace(first, stage=stage, why=f"{len(run)} of {shards} shards ({shown}): {first.why}")


def nearest_difference(earlier: Sequence[Json], key: StageKey) -> str:
    """Return the differences of a key to the most similar record of its stage (latest of equals).

    Records without a common input, or with another task or method, are not compared.
    """
    known = [
        parts
        for parts in earlier
        if all(parts.get(subject) == key.parts.get(subject) for subject in SUBJECTS)
    ]
    inputs = inputs_of(key.parts)
    compared = [
        differences(parts, key.parts) for parts in known if not inputs or inputs & inputs_of(parts)
    ]
    if not compared:
        return OTHER_INPUTS if known else records.FIRST_TIME
    fewest = min(reversed(compared), key=len)
    rest = len(fewest) - SHOWN
    return ", ".join(fewest[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def inputs_of(parts: Json) -> set[str]:
    """Return the digests of artifacts and files among a key's arguments."""
    values = [str(value) for name, value in parts.items() if name.startswith("arguments")]
    return {digest for value in values for digest in DIGEST.findall(value)}


def differences(old: Json, new: Json) -> list[str]:
    """Return sorted differences such as `arguments.config.top_k 1 -> 2`; code comes first."""

    def side(parts: Json, name: str) -> str:
        return short(parts[name]) if name in parts else "absent"

    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    code = ["code changed"] if "code" in changed else []
    return code + [
        f"{name} {side(old, name)} -> {side(new, name)}" for name in changed if name != "code"
    ]


def short(value: Any) -> str:
    """Return a value in at most 40 characters; a reference as kind and twelve digest characters."""
    text = str(value)
    kind, _, digest = text.partition(":")
    if len(digest) == 64:
        return f"{kind}:{digest[:12]}"
    return text if len(text) <= 40 else f"{text[:37]}..."
