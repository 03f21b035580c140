"""Atomic, verified checkpoints: a broken or half-written one is never used."""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from sentemb_core.errors import StorageError
from sentemb_core.store import disk

log = logging.getLogger(__name__)

KEPT = 2
"""Checkpoints: should the newest be broken, the one before is there."""

HOUR = 3600.0
"""After which a draft is nobody's."""


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and a text of everything that is not a tensor."""

    tensors: Mapping[str, Tensor]
    facts: str


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write `step-N.safetensors`, then its manifest; older ones go.

    Where the file system does not lock, another process may write the same bytes to this folder,
    or remove it when it is done: neither keeps this one from going on.

    Raises:
        StorageError: the disk refused; what was there before is untouched.
    """
    disk.make_folder(folder)
    _remove_left_drafts(folder)
    path = folder / f"step-{step:08d}.safetensors"
    draft = folder / disk.unique("draft")
    _write(draft, checkpoint)
    manifest = {"size": draft.stat().st_size, "sha256": disk.sha256(draft)}
    _publish(draft, path)
    disk.write(draft, json.dumps(manifest).encode())
    _publish(draft, path.with_suffix(".json"))
    _remove(_manifests(folder)[:-KEPT])


def last_step(folder: Path) -> int:
    """That of the newest checkpoint, whole or not; 0 where there is none."""
    return max((int(path.stem.removeprefix("step-")) for path in _manifests(folder)), default=0)


def remove_checkpoints(folder: Path) -> None:
    """All of them: of two recipes in one folder only the one that is further on would be kept."""
    _remove(_manifests(folder))


def require_room(folder: Path, size: int, due: int) -> None:
    """Refuse a training before its first step whose checkpoints the disk could not hold.

    Args:
        folder: Theirs; those of an interrupted training are there already.
        size: Bytes of one.
        due: How many will be written. The next is whole before the oldest goes.

    Raises:
        StorageError: too little is free.
    """
    held = len(_manifests(folder))
    count = min(due, max(KEPT + 1 - held, 1))
    disk.require_free(folder, count * size, f"{count} checkpoints of the training")


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint whose bytes are those its manifest names."""
    for manifest in reversed(_manifests(folder)):
        path = manifest.with_suffix(".safetensors")
        if _is_whole(manifest, path):
            return _read(path)
        log.warning("checkpoint %s is broken and is ignored", path.name)
    return None


def _remove_left_drafts(folder: Path) -> None:
    """Of killed processes: ours, and those that safetensors writes first."""
    for draft in (*folder.glob("draft-*"), *folder.glob(".tmp*")):
        with suppress(FileNotFoundError):  # another process was quicker
            if draft.stat().st_mtime < time.time() - HOUR:
                disk.remove(draft)


def _manifests(folder: Path) -> list[Path]:
    """Of all checkpoints, the oldest first."""
    return sorted(folder.glob("step-*.json"))


@disk.operation
def _write(path: Path, checkpoint: Checkpoint) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
    with disk.storage_errors(path.parent):
        save_file(tensors, path, metadata={"facts": checkpoint.facts})
    disk.sync(path)


def _remove(manifests: Iterable[Path]) -> None:
    for manifest in manifests:
        disk.remove(manifest)
        disk.remove(manifest.with_suffix(".safetensors"))


def _publish(draft: Path, path: Path) -> None:
    disk.replace(draft, path)
    disk.sync(path.parent)


def _is_whole(manifest: Path, path: Path) -> bool:
    try:
        said = json.loads(disk.read(manifest))
        return (said["size"], said["sha256"]) == (path.stat().st_size, disk.sha256(path))
    except (FileNotFoundError, StorageError, ValueError, KeyError, TypeError):
        return False


def _read(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
        return Checkpoint(tensors, file.metadata()["facts"])
