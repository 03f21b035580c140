"""Removal of what no registered model and none of the last runs reaches."""

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
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
"""Ending of files that are nothing but locks: of a stage, of a run, of a run's spool."""

SECOND = 1.0
"""More than a file's time may lag behind the clock."""

HOUR = 3600.0
WEEK = 7 * 24 * HOUR
"""How long a killed training can be resumed and a broken artifact inspected."""


class Garbage(Value):
    """What was removed, or would be: how many of each kind, bytes of all, and what stays."""

    counts: dict[str, int]
    bytes: int
    kept_objects: int


def collect(
    store: Store, roots: Iterable[ArtifactRef], keep_runs: int, *, dry_run: bool = False
) -> Garbage:
    """Remove what neither the roots (registered models) nor the last runs reach.

    All that a kept run read or made is kept, which is the whole way back to its sources, and so is
    a record all of whose artifacts are. A record goes whose results are gone, or in quarantine.
    What may be in use stays: a draft that is locked or younger than an hour, an artifact younger
    than an hour or than the oldest run that goes on, and what a run begins to use meanwhile.

    Raises:
        StorageError: a record or a run cannot be read, so what it names is not known.
    """
    began = time.time()
    found = unreached(store, roots, keep_runs)
    total = sum(1 for _ in store.objects.glob(ARTIFACTS))
    sizes = {path: size(path) for paths in found.values() for path in paths}
    gone = found
    if not dry_run:
        unused = list(still_unused(store, found.pop("objects"), began))
        digests = {path.name for path in unused}
        named = (path for path in found.pop("records") if is_useless(store, path, digests))
        gone = {"records": removed(store, named)}  # no run finds what they name now
        gone["objects"] = removed(store, still_unused(store, unused, began))
        gone["work"] = [path for path in found.pop("work") if remove_work(store, path)]
        gone |= {kind: removed(store, paths) for kind, paths in found.items()}
    garbage = Garbage(
        counts={kind: len(paths) for kind, paths in gone.items()},
        bytes=sum(sizes[path] for paths in gone.values() for path in paths),
        kept_objects=total - len(gone["objects"]),
    )
    if not dry_run:
        log.info("gc removed %s: %d bytes.", garbage.counts, garbage.bytes)
    return garbage


def removed(store: Store, paths: Iterable[Path]) -> list[Path]:
    """Those that went: another process may be quicker, or hold a lock by now."""
    return [
        path
        for path in paths
        if (remove_unheld(path) if path.suffix == LOCK else remove(store, path))
    ]


def still_unused(store: Store, folders: Iterable[Path], since: float) -> Iterator[Path]:
    """Those of these artifacts that no run took up since then, nor, when it is asked, made anew."""
    known = runs.last_runs(store)
    later = [run for run in known if run.finished and run.finished >= since]
    taken = {ref.digest for run in (*going_on(known), *later) for ref in run.refs}
    for path in folders:
        if path.name not in taken and changed(path) < since - SECOND:
            yield path


def unreached(store: Store, roots: Iterable[ArtifactRef], keep_runs: int) -> dict[str, list[Path]]:
    """Paths to remove, by kind; records before the artifacts they name."""
    recent = runs.last_runs(store)
    running = going_on(recent)
    since = min([time.time() - HOUR, *(run.started for run in running)])
    kept = reached(store, roots, [*recent[:keep_runs], *running], recent)
    objects = [
        folder
        for folder in store.objects.glob(ARTIFACTS)
        if folder.name not in kept and changed(folder) < since
    ]
    digests = {folder.name for folder in objects}
    return {
        "records": [
            path for path in store.root.glob("records/*/*") if is_useless(store, path, digests)
        ],
        "objects": objects,
        "drafts": [draft for draft in children(store.tmp) if is_abandoned(draft, HOUR)],
        "work": [
            folder
            for folder in children(store.root / "work")
            if NAME.fullmatch(folder.name)
            and is_abandoned(folder, WEEK)
            and not is_locked(store.lock(folder.name))
        ],
        "quarantined": [path for path in children(store.quarantine) if is_abandoned(path, WEEK)],
        "locks": [
            path
            for folder in ("locks", "spool")
            for path in children(store.root / folder)
            if path.suffix == LOCK and is_abandoned(path, WEEK)
        ],
    }


def going_on(known: Iterable[Run]) -> list[Run]:
    """Those of these runs that somebody is at."""
    return [run for run in known if run.state == "running"]


def reached(
    store: Store, roots: Iterable[ArtifactRef], kept: Sequence[Run], known: Sequence[Run]
) -> set[str]:
    """Digests of all that these runs used, and of all on the way to the roots.

    That way is the run's that put a root out: equal artifacts, which small ones often are, have
    several makers, and the others' sources are not on it. Without such a run all are followed.
    """
    made_by = {ref.digest: run for run in reversed(known) for ref in run.outputs}
    roots = list(roots)
    behind = [made_by[root.digest] for root in roots if root.digest in made_by]
    used = {ref.digest for run in (*kept, *behind) for ref in run.refs}
    return used | ancestors(store, [root for root in roots if root.digest not in made_by])


def ancestors(store: Store, roots: Iterable[ArtifactRef]) -> set[str]:
    """Digests of the roots and of all artifacts on the way back to their sources."""
    makers: dict[str, list[records.Record]] = {}
    for record in records.every(store):
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


def is_useless(store: Store, path: Path, going: set[str]) -> bool:
    """Whether a record names one of these artifacts, or a result that is gone, or is none."""
    try:
        record = records.read(path)
    except (*disk.ABSENCE, ValueError):
        return True
    gone = any(not store.folder(ref.digest).exists() for ref in record.outputs)
    return gone or any(ref.digest in going for ref in (*record.inputs, *record.outputs))


def is_abandoned(path: Path, age: float) -> bool:
    """Nobody holds it, and nothing in it has changed for so many seconds."""
    return not is_locked(path) and changed(path) < time.time() - age


def changed(path: Path) -> float:
    """When a file, or anything in a folder, was last modified; now, if it is just going away."""
    try:
        return max(entry.stat().st_mtime for entry in (path, *path.rglob("*")))
    except FileNotFoundError:
        return time.time()


def size(path: Path) -> int:
    """Bytes of a file, or of all in a folder; 0, if it is just going away."""
    try:
        return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    except FileNotFoundError:
        return 0


def children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def remove_work(store: Store, folder: Path) -> bool:
    """Remove a working folder unless its stage goes on, or went on since the folder was found."""
    with lock_if_free(store.lock(folder.name)) as free:
        return free and is_abandoned(folder, WEEK) and remove(store, folder)


def remove(store: Store, path: Path) -> bool:
    """Out of sight in one step, then gone: no reader meets half an artifact."""
    disk.make_folder(store.tmp)
    grave = store.tmp / disk.unique("removed")
    try:
        disk.touch(path)  # another gc takes an old grave for an abandoned draft
        disk.rename_to(path, grave)
    except FileNotFoundError:
        return False  # another process was quicker
    disk.remove(grave)
    return True


class Health(Value):
    """What was found. Corrupt artifacts are in quarantine now; their stages rebuild them."""

    ok: int
    bytes: int
    corrupt: list[str]
    missing: list[ArtifactRef]
    stray: list[str]

    @property
    def healthy(self) -> bool:
        return not (self.corrupt or self.missing or self.stray)


def fsck(store: Store) -> Health:
    """Hash all artifacts again, set the broken ones aside, list what is missing or out of place.

    Missing are artifacts that a record returned; stray is what has no business where it lies:
    files that are no artifact, and records that cannot be read.
    """
    corrupt: list[str] = []
    stray = [str(path) for path in stray_records(store)]
    sizes: list[int] = []
    for folder in sorted(store.objects.glob("*/*")):
        if not re.fullmatch(r"[0-9a-f]{64}", folder.name) or folder != store.folder(folder.name):
            stray.append(str(folder))
            continue
        try:
            sizes.append(verified(folder, deep=True).ref.size)
        except CorruptArtifactError as error:
            if not os.path.lexists(folder):  # `gc` was quicker
                continue
            store.set_aside(folder, str(error))
            corrupt.append(str(error))
        except StorageError as error:  # of the disk, perhaps of this moment: left where it is
            corrupt.append(str(error))
    return Health(
        ok=len(sizes), bytes=sum(sizes), corrupt=corrupt, missing=missing(store), stray=stray
    )


def stray_records(store: Store) -> list[Path]:
    """Files among the records that are none."""
    found: list[Path] = []
    for path in sorted((store.root / "records").glob("*/*")):
        try:
            records.read(path)
        except (OSError, ValueError):
            found.append(path)
    return found


def missing(store: Store) -> list[ArtifactRef]:
    """Artifacts that a record returned and that are not here (gone, or in quarantine)."""
    named = dict.fromkeys(ref for record in records.every(store) for ref in record.outputs)
    return [ref for ref in named if not store.folder(ref.digest).exists()]
