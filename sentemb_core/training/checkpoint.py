"""Atomic, verified checkpoints: a broken or partial checkpoint is never used."""

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
"""Checkpoints to keep: if the newest is broken, the one before it is used."""

HOUR = 3600.0
"""Seconds after which a draft is abandoned."""


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and all other state as a text."""

    tensors: Mapping[str, Tensor]
    facts: str


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write `step-N.safetensors`, then its manifest; remove older checkpoints.

    Where the file system does not lock, another process may write the same bytes to this folder, or
    remove the folder at its end. Both are handled.

    Raises:
        StorageError: the disk refused; earlier checkpoints are unchanged.
    """
    disk.make_folder(folder)
    _remove_abandoned_drafts(folder)
    path = folder / f"step-{step:08d}.safetensors"
    draft = folder / disk.unique("draft")
    _write(draft, checkpoint)
    manifest = {"size": draft.stat().st_size, "sha256": disk.sha256(draft)}
    _publish(draft, path)
    disk.write(draft, json.dumps(manifest).encode())
    _publish(draft, path.with_suffix(".json"))
    _remove(_manifests(folder)[:-KEPT])


def last_step(folder: Path) -> int:
    """Return the step of the newest checkpoint, whole or not; 0 without a checkpoint."""
    return max((int(path.stem.removeprefix("step-")) for path in _manifests(folder)), default=0)


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints: of two recipes in a folder only the later steps would be kept."""
    _remove(_manifests(folder))


def require_room(folder: Path, size: int, due: int) -> None:
    """Check before the first step that the disk can hold the `due` checkpoints of `size` bytes.

    An interrupted training has some already. A new one is written before the oldest is removed.

    Raises:
        StorageError: too little free space.
    """
    held = len(_manifests(folder))
    count = min(due, max(KEPT + 1 - held, 1))
    disk.require_free(folder, count * size, f"{count} checkpoints of the training")


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint that matches its manifest."""
    for manifest in reversed(_manifests(folder)):
        path = manifest.with_suffix(".safetensors")
        if _is_whole(manifest, path):
            return _read(path)
        log.warning("broken checkpoint ignored: %s", path.name)
    return None


def _remove_abandoned_drafts(folder: Path) -> None:
    """Remove the drafts of killed processes, also those of safetensors."""
    for draft in (*folder.glob("draft-*"), *folder.glob(".tmp*")):
        with suppress(FileNotFoundError):  # another process removed it first
            if draft.stat().st_mtime < time.time() - HOUR:
                disk.remove(draft)


def _manifests(folder: Path) -> list[Path]:
    """Return the manifests of all checkpoints, the oldest first."""
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
        expected = json.loads(disk.read(manifest))
        return (expected["size"], expected["sha256"]) == (path.stat().st_size, disk.sha256(path))
    except (FileNotFoundError, StorageError, ValueError, KeyError, TypeError):
        return False


def _read(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
        return Checkpoint(tensors, file.metadata()["facts"])
