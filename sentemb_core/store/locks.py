"""Advisory file locks that prevent double work. Results stay correct where nothing locks."""

import fcntl
import logging
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sentemb_core.store import disk

log = logging.getLogger(__name__)


@contextmanager
def file_lock(path: Path) -> Generator[None, None, None]:
    """Hold an exclusive lock on `path`: a file, created if absent, or a folder.

    The kernel releases the lock when the process dies. Some network file systems do not lock:
    then two writers may do the same work and publish the same bytes.
    """
    descriptor = _wait_for(path)
    while _was_removed(path, descriptor):  # during the wait
        os.close(descriptor)
        descriptor = _wait_for(path)
    try:
        yield
    finally:
        os.close(descriptor)


def shared_lock(path: Path) -> int | None:
    """Return a descriptor that holds a shared lock on `path`; None where nothing locks.

    Waits for an exclusive holder. Closing the descriptor, or the end of the process, releases it.
    """
    descriptor = _open_or_create(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def held_note(path: Path, text: str) -> int:
    """Replace `path` by a file with this text that is locked from its first moment.

    Returns the descriptor that holds the lock. Another process may inherit it.
    """
    draft = path.with_name(disk.unique(path.name))
    descriptor = _open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        _try_lock(descriptor)
        os.write(descriptor, text.encode())
        disk.replace(draft, path)
    except OSError as error:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
        raise disk.storage_error("write", path, error) from error
    return descriptor


@contextmanager
def lock_if_free(path: Path) -> Generator[bool, None, None]:
    """Yield whether the lock on `path` is free; if so, hold it during the block. Never waits."""
    descriptor = _open_or_create(path)
    try:
        yield _try_lock(descriptor) and not _was_removed(path, descriptor)
    finally:
        os.close(descriptor)


def remove_unheld(path: Path) -> bool:
    """Remove the lock file unless a process holds it. A waiting process creates a new file."""
    with _existing(path, os.O_RDWR) as descriptor:
        if descriptor is None or not _try_lock(descriptor) or _was_removed(path, descriptor):
            return False
        path.unlink()
        return True


def is_locked(path: Path) -> bool:
    """Return whether `path` is, or may be, held exclusively. Where nothing locks: True.

    Processes that ask at the same time do not disturb each other. No file is created.
    """
    with _existing(path, os.O_RDONLY) as descriptor:  # a home may be read-only
        return descriptor is not None and not _try_lock(descriptor, fcntl.LOCK_SH, unknown=False)


def is_shared(path: Path) -> bool:
    """Return whether `path` is held, by `shared_lock` or exclusively."""
    with _existing(path, os.O_RDONLY) as descriptor:
        return descriptor is not None and not _try_lock(descriptor)


def _open_or_create(path: Path) -> int:
    if not path.is_dir():
        disk.make_folder(path.parent)
    return _open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT)


def _wait_for(path: Path) -> int:
    descriptor = _open_or_create(path)
    try:
        if not _try_lock(descriptor):
            log.info("Waiting for another process that holds %s.", path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:  # Ctrl-C may end the wait
        os.close(descriptor)
        raise
    return descriptor


def _was_removed(path: Path, descriptor: int) -> bool:
    """Return whether `path` no longer names the open file: then no other process meets its lock."""
    status = os.fstat(descriptor)
    try:
        return not (stat.S_ISDIR(status.st_mode) or os.path.samestat(path.stat(), status))
    except FileNotFoundError:
        return True


@contextmanager
def _existing(path: Path, flags: int) -> Generator[int | None, None, None]:
    """Yield a descriptor of the file, closed after the block; None if there is no file."""
    try:
        descriptor = _open(path, flags)
    except FileNotFoundError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


@disk.operation
def _open(path: Path, flags: int) -> int:
    return os.open(path, flags, 0o644)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX, *, unknown: bool = True) -> bool:
    """Return whether the lock was taken; `unknown` where the file system does not lock."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning("This file system does not lock (%s): work may be done twice.", error)
        return unknown
    return True
