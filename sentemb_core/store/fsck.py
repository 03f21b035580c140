"""Every byte of the store read again and compared with its name."""

import os
import re
from pathlib import Path

from sentemb_core.errors import CorruptArtifactError, StorageError
from sentemb_core.store import records
from sentemb_core.store.objects import Store, verified
from sentemb_core.types import ArtifactRef, Value


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
