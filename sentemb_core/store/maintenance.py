"""Maintenance of a store: `collect` removes garbage, `fsck` verifies every byte."""

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sentemb_core.errors import CorruptArtifactError, StorageError
from sentemb_core.store import disk, records, runs
from sentemb_core.store.locks import is_locked, lock_if_free, remove_unheld
from sentemb_core.store.objects import NAME, Store, verified
from sentemb_core.store.runs import Run
from sentemb_core.types import ArtifactRef, Value

log = logging.getLogger(__name__)

ARTIFACTS = "??/*"
LOCK = ".lock"
"""Suffix of lock files: of a stage, of a run, of a run's spool."""

SECOND = 1.0
"""Seconds that a file's time may lag behind the clock."""

HOUR = 3600.0
WEEK = 7 * 24 * HOUR
"""How long a killed training can be resumed and a broken artifact inspected."""


class Garbage(Value):
    """Removed (or removable) paths by kind, their bytes, and the number of artifacts that stay."""

    counts: dict[str, int]
    bytes: int
    kept_objects: int


def collect(
    store: Store, roots: Iterable[ArtifactRef], keep_runs: int, *, dry_run: bool = False
) -> Garbage:
    """Remove artifacts that neither the roots (registered models) nor the last runs reach.

    All inputs and outputs of a kept run stay, so its lineage stays complete. A record stays as long
    as all its artifacts do. These stay as well, since they may be in use:

    - a draft that is locked or younger than an hour,
    - an artifact younger than an hour or than the oldest active run,
    - an artifact that a run begins to use during the collection.

    Raises:
        StorageError: a record or a run cannot be read, so its artifacts are unknown.
        BrokenFileError: a run is damaged, so its artifacts are unknown.
    """
    began = time.time()
    garbage = _unreachable(store, roots, keep_runs)
    total = sum(1 for _ in store.objects.glob(ARTIFACTS))
    sizes = {path: _size(path) for paths in garbage.values() for path in paths}
    removed = garbage if dry_run else _removed(store, garbage, began)
    report = Garbage(
        counts={kind: len(paths) for kind, paths in removed.items()},
        bytes=sum(sizes[path] for paths in removed.values() for path in paths),
        kept_objects=total - len(removed["objects"]),
    )
    if not dry_run:
        log.info("gc removed %s: %d bytes.", report.counts, report.bytes)
    return report


def _unreachable(
    store: Store, roots: Iterable[ArtifactRef], keep_runs: int
) -> dict[str, list[Path]]:
    """Return the paths to remove by kind; records come before the artifacts that they name."""
    known = _all_runs(store)
    active = _active(known)
    since = min([time.time() - HOUR, *(run.started for run in active)])
    kept = _reachable(store, roots, [*known[:keep_runs], *active], known)
    objects = [
        folder
        for folder in store.objects.glob(ARTIFACTS)
        if folder.name not in kept and _last_change(folder) < since
    ]
    digests = {folder.name for folder in objects}
    return {
        "records": [
            path for path in store.root.glob("records/*/*") if _is_useless(store, path, digests)
        ],
        "objects": objects,
        "drafts": [draft for draft in _children(store.tmp) if _is_abandoned(draft, HOUR)],
        "work": [
            folder
            for folder in _children(store.root / "work")
            if NAME.fullmatch(folder.name)
            and _is_abandoned(folder, WEEK)
            and not is_locked(store.lock(folder.name))
        ],
        "quarantined": [path for path in _children(store.quarantine) if _is_abandoned(path, WEEK)],
        "locks": [
            path
            for folder in ("locks", "spool")
            for path in _children(store.root / folder)
            if path.suffix == LOCK and _is_abandoned(path, WEEK)
        ],
    }


def _removed(
    store: Store, garbage: Mapping[str, list[Path]], began: float
) -> dict[str, list[Path]]:
    """Remove the garbage that is unused since the beginning, and return it by kind."""
    unused = list(_still_unused(store, garbage["objects"], began))
    digests = {path.name for path in unused}
    useless = (path for path in garbage["records"] if _is_useless(store, path, digests))
    return {
        "records": _remove_all(store, useless),  # first: no run finds the artifacts then
        "objects": _remove_all(store, _still_unused(store, unused, began)),
        "work": [path for path in garbage["work"] if _remove_work(store, path)],
        **{kind: _remove_all(store, garbage[kind]) for kind in ("drafts", "quarantined", "locks")},
    }


def _all_runs(store: Store) -> list[Run]:
    known, broken = runs.scan(store)
    for error in broken.values():
        raise error
    return known


def _active(known: Iterable[Run]) -> list[Run]:
    return [run for run in known if run.state == "running"]


def _reachable(
    store: Store, roots: Iterable[ArtifactRef], kept: Sequence[Run], known: Sequence[Run]
) -> set[str]:
    """Return the digests that the kept runs used, and the digests on the way to the roots.

    The last run with a root as its output gives the way: a small artifact often has equal copies
    in other runs, whose sources are not on the way. Without such a run all makers are followed.
    """
    made_by = {ref.digest: run for run in reversed(known) for ref in run.outputs}
    roots = list(roots)
    makers = [made_by[root.digest] for root in roots if root.digest in made_by]
    used = {ref.digest for run in (*kept, *makers) for ref in run.refs}
    return used | _ancestors(store, [root for root in roots if root.digest not in made_by])


def _ancestors(store: Store, roots: Iterable[ArtifactRef]) -> set[str]:
    """Return the digests of the roots and of all artifacts on the way back to their sources."""
    makers: dict[str, list[records.Record]] = {}
    for record in records.all_records(store):
        for ref in record.outputs:
            makers.setdefault(ref.digest, []).append(record)
    reached: set[str] = set()
    todo = [ref.digest for ref in roots]
    while todo:
        digest = todo.pop()
        if digest in reached:
            continue
        reached.add(digest)
        for record in makers.get(digest, []):
            todo += [ref.digest for ref in (*record.inputs, *record.outputs)]
    return reached


def _still_unused(store: Store, folders: Iterable[Path], since: float) -> Iterator[Path]:
    """Yield the artifacts that no run has used, and no writer has refreshed, since then."""
    known = _all_runs(store)
    later = [run for run in known if run.finished and run.finished >= since]
    used = {ref.digest for run in (*_active(known), *later) for ref in run.refs}
    for path in folders:
        if path.name not in used and _last_change(path) < since - SECOND:
            yield path


def _is_useless(store: Store, path: Path, removed: set[str]) -> bool:
    """Return whether a record is unreadable, or names a removed artifact or one that is nowhere.

    With a shared store, an artifact that is not in the home is there.
    """
    try:
        record = records.read(path)
    except (*disk.ABSENCE, ValueError):
        return True
    if any(ref.digest in removed for ref in (*record.inputs, *record.outputs)):
        return True
    return not store.shared and any(not store.folder(ref.digest).exists() for ref in record.outputs)


def _is_abandoned(path: Path, age: float) -> bool:
    """Return whether no process holds the path and nothing in it changed for `age` seconds."""
    return not is_locked(path) and _last_change(path) < time.time() - age


def _last_change(path: Path) -> float:
    """Return the last modification of a path or of anything in it; now if it just disappears."""
    try:
        return max(entry.stat().st_mtime for entry in (path, *path.rglob("*")))
    except FileNotFoundError:
        return time.time()


def _size(path: Path) -> int:
    """Return the bytes of a file or of a whole folder; 0 if it just disappears."""
    try:
        return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    except FileNotFoundError:
        return 0


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _remove_all(store: Store, paths: Iterable[Path]) -> list[Path]:
    """Remove these paths and return the removed ones: another process may hold or remove some."""
    return [
        path
        for path in paths
        if (remove_unheld(path) if path.suffix == LOCK else _remove(store, path))
    ]


def _remove_work(store: Store, folder: Path) -> bool:
    """Remove a working folder unless its stage is running, or has run since it was listed."""
    with lock_if_free(store.lock(folder.name)) as free:
        return free and _is_abandoned(folder, WEEK) and _remove(store, folder)


def _remove(store: Store, path: Path) -> bool:
    """Move a path out of sight, then remove it: no reader meets half an artifact."""
    disk.make_folder(store.tmp)
    grave = store.tmp / disk.unique("removed")
    try:
        disk.touch(path)  # otherwise another gc takes the grave for an abandoned draft
        disk.rename_to(path, grave)
    except FileNotFoundError:
        return False  # another process removed it first
    disk.remove(grave)
    return True


class Health(Value):
    """Result of `fsck`. Corrupt artifacts and runs are now in quarantine; stages rebuild theirs."""

    ok: int
    bytes: int
    corrupt: list[str]
    missing: list[ArtifactRef]
    stray: list[str]

    @property
    def healthy(self) -> bool:
        return not (self.corrupt or self.missing or self.stray)


def fsck(store: Store) -> Health:
    """Hash all artifacts again, set broken ones and broken runs aside; list missing, stray paths.

    Missing are artifacts that a record returned and that are neither in the home nor in the shared
    store. Stray are files in `objects/` that are no artifact, and unreadable records.
    """
    corrupt: list[str] = []
    stray: list[str] = []
    sizes: list[int] = []
    for folder in sorted(store.objects.glob("*/*")):
        if not re.fullmatch(r"[0-9a-f]{64}", folder.name) or folder != store.folder(folder.name):
            stray.append(str(folder))
            continue
        try:
            sizes.append(verified(folder, deep=True).ref.size)
        except CorruptArtifactError as error:
            if not os.path.lexists(folder):  # gc removed it meanwhile
                continue
            store.set_aside(folder, f"{error} Its stage will rebuild it.")
            corrupt.append(str(error))
        except StorageError as error:  # of the disk, perhaps only now: the artifact stays
            corrupt.append(str(error))
    for path, error in runs.scan(store)[1].items():
        for file in (path, path.with_suffix(".jsonl")):
            store.set_aside(file, str(error))
        corrupt.append(str(error))
    known, unreadable = records.scan(store)
    stray[:0] = map(str, unreadable)
    outputs = dict.fromkeys(ref for record in known for ref in record.outputs)
    absent = [ref for ref in outputs if not store.folder(ref.digest).exists()]
    missing = [ref for ref in absent if not store.is_shared(ref)]
    return Health(ok=len(sizes), bytes=sum(sizes), corrupt=corrupt, missing=missing, stray=stray)
