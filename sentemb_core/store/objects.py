"""Content-addressed store: an artifact is a folder named by the SHA-256 of its content.

    objects/sha256/ab/<digest>/{manifest.json, data/...}   complete and never changed
    records/<stage>/<key>.json                             result of a stage (records.py)
    runs/<run>.json, <run>.jsonl                           artifacts that a run used (runs.py)
    work/<stage>-<key>/                                    checkpoints of an unfinished stage
    tmp/ locks/ quarantine/                                drafts, lock files, broken artifacts

Writers never share a draft, and a single rename publishes it. So a crash, a full disk or a second
writer leaves an artifact whole or absent. Readers compare sizes and SHA-256 with the manifest, and
the manifest with the folder's name.

With a shared store (shared.py), an absent artifact is copied from there when it is read.
"""

import errno
import hashlib
import logging
import os
import re
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from sentemb_core.errors import CorruptArtifactError, StorageError, UsageError
from sentemb_core.store import disk
from sentemb_core.store.claims import claim
from sentemb_core.store.locks import file_lock
from sentemb_core.store.seals import canonical
from sentemb_core.store.shared import SharedStore, shared_store
from sentemb_core.types import ArtifactRef, Value

log = logging.getLogger(__name__)

COMPUTE_AGAIN = "Repeat the run that made it: its stage computes the artifact again."
"""Way out for an absent or broken artifact."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""A name inside an artifact: portable, visible, and unable to lead outside the artifact."""


class File(Value):
    """One file of an artifact."""

    model_config = ConfigDict(strict=True)

    path: str = Field(pattern=rf"^{NAME.pattern}(/{NAME.pattern})*$")
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Value):
    """The content of an artifact. Its maker is not included: equal bytes have one name."""

    model_config = ConfigDict(strict=True)

    version: Literal[1] = 1
    kind: str
    files: list[File]

    @property
    def ref(self) -> ArtifactRef:
        """Return the artifact's reference; its digest covers kind, paths, sizes and contents."""
        return ArtifactRef(
            kind=self.kind,
            digest=hashlib.sha256(self.content).hexdigest(),
            size=sum(file.size for file in self.files),
        )

    @property
    def content(self) -> bytes:
        return canonical(self.model_dump())


@dataclass
class Draft:
    """An artifact in the making: write files into `path`. `ref` exists after the with-block."""

    path: Path
    ref: ArtifactRef = field(init=False)


class Store:
    """A home folder of artifacts, records and runs (see the layout above).

    `shared` is the store that this home shares with other machines, if there is one.
    """

    def __init__(self, root: Path, shared: SharedStore | None = None) -> None:
        self.root = root.absolute()
        self.shared = shared

    @classmethod
    def default(cls) -> "Store":
        """Return the store of $SENTEMB_HOME, else of ./.sentemb, before $SENTEMB_STORE if set."""
        url = os.environ.get("SENTEMB_STORE")
        home = Path(os.environ.get("SENTEMB_HOME") or ".sentemb")
        return cls(home, shared_store(url) if url else None)

    @property
    def objects(self) -> Path:
        return self.root / "objects" / "sha256"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    def folder(self, digest: str) -> Path:
        """Return the folder of an artifact of this digest; it may be absent."""
        return self.objects / digest[:2] / digest

    def work(self, key: str) -> Path:
        """Create and return the folder for checkpoints of an unfinished stage of this key."""
        folder = self.root / "work" / checked_name(key)
        disk.make_folder(folder)
        return folder

    def lock(self, name: str) -> Path:
        """Return the lock file for this name."""
        return self.root / "locks" / f"{checked_name(name)}.lock"

    @contextmanager
    def claim(self, name: str) -> Generator[None, None, None]:
        """Let one process compute a name at a time: of this home, and of all that share a store.

        Raises:
            SharedStoreError: the shared store does not answer.
        """
        with ExitStack() as held:
            held.enter_context(file_lock(self.lock(name)))
            if self.shared:
                held.enter_context(claim(self.shared, name))
            yield

    @contextmanager
    def writing(self, kind: str) -> Generator[Draft, None, None]:
        """Yield a draft folder for an artifact's files and publish it when the block ends.

        The draft is locked meanwhile, so that `gc` does not remove it.

        Raises:
            StorageError: disk full, no permission, too many open files; the draft is removed.
            UsageError: no file, a link, or a file name that is not portable.
        """
        home = self.tmp / disk.unique(kind)
        draft = Draft(home / "data")
        disk.make_folder(draft.path)
        try:
            with file_lock(home):
                with disk.storage_errors(draft.path):
                    yield draft
                draft.ref = self._publish(kind, home)
        finally:
            if home.exists():
                disk.remove(home)

    def path(self, ref: ArtifactRef) -> Path:
        """Return the verified data folder of an artifact.

        A process hashes each file once, as long as its inode, size and times stay the same.

        Raises:
            CorruptArtifactError: absent, or broken and now in `quarantine/`.
            SharedStoreError: it is not in the home, and the shared store does not answer.
        """
        if self.shared and not self.holds(ref):
            self._fetch(self.shared, ref)
        self.verify(ref)
        return self.folder(ref.digest) / "data"

    def find(self, beginning: str) -> ArtifactRef:
        """Return the only artifact whose digest has this beginning.

        Raises:
            UsageError: no artifact, or several artifacts, match.
            CorruptArtifactError: its manifest is broken.
        """
        matches = [path for path in self.objects.glob("*/*") if path.name.startswith(beginning)]
        if len(matches) != 1:
            raise UsageError(
                f"The beginning of a digest must match one artifact. Found {len(matches)} matches "
                f"of {beginning!r} in {self.root}. Give twelve characters, as lineage prints them."
            )
        try:
            return verified(matches[0], deep=False).ref
        except CorruptArtifactError as error:
            raise CorruptArtifactError(f"{error.args[0]} {COMPUTE_AGAIN}") from error

    def holds(self, ref: ArtifactRef) -> bool:
        """Return whether the artifact is present and whole."""
        try:
            self.verify(ref)
        except CorruptArtifactError:
            return False
        return True

    def verify(self, ref: ArtifactRef) -> None:
        """Compare an artifact with its digest.

        Raises:
            CorruptArtifactError: absent, or broken and now in `quarantine/`.
        """
        folder = self.folder(ref.digest)
        if not folder.exists():
            raise CorruptArtifactError(
                f"Artifact {ref} is not in the store at {self.root}. {COMPUTE_AGAIN}"
            )
        try:
            actual = verified(folder, deep=False).ref
        except CorruptArtifactError as error:
            self.set_aside(folder, f"{error} Its stage will rebuild it.")
            raise CorruptArtifactError(f"{error.args[0]} {COMPUTE_AGAIN}") from error
        if actual != ref:
            raise CorruptArtifactError(
                f"The reference is wrong: it names {ref} of {ref.size} bytes, but the artifact of "
                f"that digest is {actual} of {actual.size} bytes. {COMPUTE_AGAIN}"
            )

    def is_shared(self, ref: ArtifactRef) -> bool:
        """Return whether the shared store has the artifact's manifest, which is written last."""
        return self.shared is not None and _shared_manifest(self.shared, ref) is not None

    def share(self, ref: ArtifactRef) -> None:
        """Copy an artifact to the shared store, if there is one that lacks it.

        Raises:
            SharedStoreError: it does not answer, or refuses the copy.
        """
        if self.shared is None or self.is_shared(ref):
            return
        data = self.path(ref)
        for name in list_files(data):
            self.shared.upload(f"{_shared_folder(ref)}/data/{name}", data / name)
        manifest = disk.read(self.folder(ref.digest) / "manifest.json")
        self.shared.write(f"{_shared_folder(ref)}/manifest.json", manifest)

    def _fetch(self, shared: SharedStore, ref: ArtifactRef) -> None:
        """Copy an artifact from the shared store, if it has it.

        Raises:
            CorruptArtifactError: broken; its manifest is removed, so its stage writes it again.
        """
        manifest = _shared_manifest(shared, ref)
        if manifest is None:
            return
        log.info("Copy %s from %s.", ref, shared.url)
        with self.writing(ref.kind) as draft:
            for file in manifest.files:
                name = f"{_shared_folder(ref)}/data/{file.path}"
                path = draft.path / file.path
                disk.make_folder(path.parent)
                if not shared.download(name, path) or disk.sha256(path) != file.sha256:
                    shared.remove(f"{_shared_folder(ref)}/manifest.json")
                    raise CorruptArtifactError(
                        f"{shared.url}/{name} is absent or differs from its digest; it is not "
                        f"used. {COMPUTE_AGAIN}"
                    )

    def _publish(self, kind: str, home: Path) -> ArtifactRef:
        data = home / "data"
        names = list_files(data)
        if not names:
            raise UsageError(f"An artifact needs at least one file; this {kind!r} has no file.")
        for name in names:
            disk.sync(data / name)
        for folder in {data / parent for name in names for parent in PurePosixPath(name).parents}:
            disk.sync(folder)
        files = [
            File(path=name, size=(data / name).stat().st_size, sha256=file_digest(data / name))
            for name in names
        ]
        manifest = Manifest(kind=kind, files=files)
        disk.write(home / "manifest.json", manifest.content)
        disk.sync(home)
        self._move_into_place(home, manifest.ref)
        return manifest.ref

    def _move_into_place(self, home: Path, ref: ArtifactRef) -> None:
        """Rename a complete draft, unless an intact artifact of that digest exists already."""
        target = self.folder(ref.digest)
        disk.make_folder(target.parent)
        while not (self._is_in_place(ref, home) and _refreshed(target)):
            try:
                disk.rename_to(home, target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        disk.sync(target.parent)
        disk.sync(target.parent.parent)

    def _is_in_place(self, ref: ArtifactRef, draft: Path) -> bool:
        """Return `holds`; an unreadable artifact is set aside if a draft can replace it."""
        try:
            return self.holds(ref)
        except StorageError as error:
            if not draft.exists():
                raise
            self.set_aside(self.folder(ref.digest), str(error))
            return False

    def set_aside(self, folder: Path, reason: str) -> None:
        """Move a broken artifact or file to `quarantine/`."""
        disk.make_folder(self.quarantine)
        try:
            disk.touch(folder)  # gc keeps it here for a week from now
            disk.rename_to(folder, self.quarantine / disk.unique(folder.name))
        except FileNotFoundError:
            return  # another process moved or removed it first
        log.warning("Moved to quarantine: %s", reason)


def _shared_folder(ref: ArtifactRef) -> str:
    return f"objects/sha256/{ref.digest[:2]}/{ref.digest}"


def _shared_manifest(shared: SharedStore, ref: ArtifactRef) -> Manifest | None:
    """Return the artifact's manifest in the shared store; None if it is absent or broken."""
    name = f"{_shared_folder(ref)}/manifest.json"
    if (content := shared.read(name)) is None:
        return None
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError:
        manifest = None
    if manifest is None or manifest.ref.digest != ref.digest:
        log.warning("%s/%s differs from its digest and is not used.", shared.url, name)
        return None
    return manifest


def _refreshed(folder: Path) -> bool:
    """Return whether the folder exists; set its time to now, because `gc` keeps young artifacts."""
    try:
        disk.touch(folder)
    except FileNotFoundError:
        return False
    return True


def verified(folder: Path, *, deep: bool) -> Manifest:
    """Return the manifest of an artifact's folder after checking all files against it.

    Raises:
        CorruptArtifactError: naming the first difference.
    """
    try:
        manifest = Manifest.model_validate_json(disk.read(folder / "manifest.json"))
        if manifest.ref.digest != folder.name:
            raise CorruptArtifactError(f"The manifest of {folder} has another digest.")
        if list_files(folder / "data") != [file.path for file in manifest.files]:
            raise CorruptArtifactError(f"The files of {folder} differ from its manifest.")
        for file in manifest.files:
            _compare(folder / "data" / file.path, file, deep=deep)
    except (*disk.ABSENCE, ValidationError, UsageError) as error:
        reason = str(error).rstrip(".")
        raise CorruptArtifactError(f"{folder} is incomplete or unreadable: {reason}.") from error
    return manifest


def _compare(path: Path, file: File, *, deep: bool) -> None:
    size = path.stat().st_size
    if size != file.size:
        raise CorruptArtifactError(f"{path} has {size} bytes; its manifest has {file.size}.")
    if file_digest(path, fresh=deep) != file.sha256:
        raise CorruptArtifactError(f"The SHA-256 of {path} differs from its manifest.")


_digests: dict[tuple[int, ...], str] = {}

SETTLED = 50_000_000
"""Nanoseconds after which a change of a file certainly changes its times (clocks have ticks)."""


def file_digest(path: Path, *, fresh: bool = False) -> str:
    """Return a file's SHA-256, cached in this process while inode, size and times stay equal."""
    stat = path.stat()
    identity = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    if identity in _digests and not fresh:
        return _digests[identity]
    settled = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED
    digest = disk.sha256(path)
    if settled:
        _digests[identity] = digest
    return digest


@disk.operation
def list_files(data: Path) -> list[str]:
    """Return the sorted relative POSIX paths of all files below a folder.

    Raises:
        UsageError: a link, a device, or a name that is not portable.
    """
    names: list[str] = []
    for folder, folders, files in os.walk(data, onerror=_raise):
        for name in (*folders, *files):
            entry = Path(folder, checked_name(name))
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                raise UsageError(f"An artifact holds plain files and folders only; found {entry}.")
        names += [Path(folder, name).relative_to(data).as_posix() for name in files]
    return sorted(names)


def _raise(error: OSError) -> None:
    raise error


def checked_name(name: str) -> str:
    """Return the name if it is portable.

    Raises:
        UsageError: otherwise.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            "A file name in the store has 1-200 letters, digits, '_', '-' or '.', and does not "
            f"begin with '.' or '-'; found {ascii(name)[:80]}."
        )
    return name
