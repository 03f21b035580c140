"""Joined artifacts: the results of a stage on every shard of a corpus, read as one.

A join names its parts, which are artifacts of the same store, and holds none of their bytes. Its
files are those of its parts, in order.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from sentemb_core.types import ArtifactRef

PARTS = "parts.json"
"""File of a joined artifact: references to its parts."""


def write_parts(parts: Sequence[ArtifactRef], out: Path) -> None:
    """Make `out` the join of these artifacts."""
    references = [part.model_dump() for part in parts]
    (out / PARTS).write_text(json.dumps(references, indent=1), encoding="utf-8")


def parts_of(folder: Path) -> list[ArtifactRef]:
    """Return the parts of a joined artifact; of another artifact, none."""
    if not (folder / PARTS).exists():
        return []
    return [*map(ArtifactRef.model_validate, json.loads((folder / PARTS).read_text("utf-8")))]


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of an artifact, or of its parts, in order."""
    folders = [folder]
    if parts := parts_of(folder):
        objects = folder.parents[2]  # OBJECTS/ab/DIGEST/data (store/objects.py)
        folders = [objects / part.digest[:2] / part.digest / "data" for part in parts]
    return [file for each in folders for file in sorted(each.glob(pattern))]
