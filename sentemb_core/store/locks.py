"""Advisory locks that save double work; nothing breaks where they do not."""

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
    """Hold `path` (a file, created if absent, or a folder) for this thread alone.

    The kernel lets go when the process dies, however it dies. Some network file systems do not
    lock at all: then two writers do the same work twice and publish the same bytes.
    """
    descriptor = _waited_for(path)
    while _was_removed(path, descriptor):  # while it was waited for
        os.close(descriptor)
        descriptor = _waited_for(path)
    try:
        yield
    finally:
        os.close(descriptor)


def shared_lock(path: Path) -> int | None:
    """Hold `path` together with others, once nobody has it alone; None where nothing locks.

    Returns the descriptor that holds it; the end of the process closes it, too.
    """
    descriptor = _made(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def held_note(path: Path, text: str) -> int:
    """Put a note in place that is locked from its first moment, whoever holds the one before.

    Returns the descriptor that holds it, which another process may inherit.
    """
    draft = path.with_name(disk.unique(path.name))
    descriptor = _open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        _locked(descriptor)
        os.write(descriptor, text.encode())
        disk.replace(draft, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def lock_if_free(path: Path) -> Generator[bool, None, None]:
    """Whether nobody else holds `path`; if so, it is held as by `file_lock`, without a wait."""
    descriptor = _made(path)
    try:
        yield _locked(descriptor) and not _was_removed(path, descriptor)
    finally:
        os.close(descriptor)


def _made(path: Path) -> int:
    if not path.is_dir():
        disk.make_folder(path.parent)
    return _open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT)


def _waited_for(path: Path) -> int:
    descriptor = _made(path)
    try:
        if not _locked(descriptor):
            log.info("Waiting for another process that holds %s.", path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:  # a person may end the waiting
        os.close(descriptor)
        raise
    return descriptor


def _was_removed(path: Path, descriptor: int) -> bool:
    """Whether the open file is no more the one of this name: nobody else would meet its lock."""
    found = os.fstat(descriptor)
    try:
        return not (stat.S_ISDIR(found.st_mode) or os.path.samestat(path.stat(), found))
    except FileNotFoundError:
        return True


def remove_unheld(path: Path) -> bool:
    """Remove the file of a lock that nobody holds; who waits for it just now makes a new one."""
    with _existing(path, os.O_RDWR) as descriptor:
        free = descriptor is not None and _locked(descriptor) and not _was_removed(path, descriptor)
        if free:
            path.unlink()
        return free


def is_locked(path: Path) -> bool:
    """Whether somebody holds `path` now, or may: where nothing locks, nobody can tell.

    Who else asks at the same time does not hold it.
    """
    with _existing(path, os.O_RDONLY) as descriptor:  # a home may be read-only
        return descriptor is not None and not _locked(descriptor, fcntl.LOCK_SH, unknown=False)


def is_shared(path: Path) -> bool:
    """Whether somebody holds `path` as by `shared_lock`, or alone."""
    with _existing(path, os.O_RDONLY) as descriptor:
        return descriptor is not None and not _locked(descriptor)


@contextmanager
def _existing(path: Path, how: int) -> Generator[int | None, None, None]:
    """Open while the block lasts; nothing where there is no such file."""
    try:
        descriptor = _open(path, how)
    except FileNotFoundError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


@disk.operation
def _open(path: Path, how: int) -> int:
    return os.open(path, how, 0o644)


def _locked(descriptor: int, kind: int = fcntl.LOCK_EX, *, unknown: bool = True) -> bool:
    """Try to lock; `unknown` where the file system knows no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        log.warning("This file system does not lock (%s): work may be done twice.", error)
        return unknown
    return True
