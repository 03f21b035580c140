"""File-system operations of the store: durable, with errors that name operation and path."""

import errno
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sentemb_core.errors import SentembError, StorageError
from sentemb_core.formats import size as in_units

P = ParamSpec("P")
R = TypeVar("R")
ABSENCE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""Error numbers of a disk that accepts no more data."""


def perform(operation: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Carry out one operation. Fault tests replace this function to fail or kill the n-th call."""
    return operation(*args, **kwargs)


def operation(function: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Wrap a file-system operation: a failure becomes a `StorageError` with operation and path.

    Errors of absence (`ABSENCE`) pass through unchanged.
    """

    @wraps(function)
    def named(path: Path, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return perform(function, path, *args, **kwargs)
        except ABSENCE:
            raise
        except OSError as error:
            raise storage_error(function.__name__, path, error) from error

    return named


def storage_error(operation: str, path: Path, error: OSError) -> StorageError:
    """Return the `StorageError` for a failed operation on `path`."""
    what = operation.strip("_").replace("_", " ")
    failure = StorageError(
        f"Could not {what} {path}: {error.strerror or error}. No incomplete file is in place, and "
        "finished stages are kept. Check free space, permissions and the limit of open files "
        "there; a home may be moved to a larger disk (SENTEMB_HOME). Then run again."
    )
    failure.errno = error.errno
    return failure


@contextmanager
def storage_errors(path: Path) -> Generator[None, None, None]:
    """Turn any writer's error of a full disk (`REFUSALS`) below `path` into a `StorageError`."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number not in REFUSALS or isinstance(error, SentembError):
            raise
        raise storage_error("write below", path, OSError(number, os.strerror(number))) from error


def _error_number(error: Exception) -> int:
    """Return the errno of an exception. Rust libraries (safetensors) write it in the text only."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = re.search(r"(?:os error|[Ee]rrno) (\d+)", str(error))
    return int(match[1]) if match else 0


@operation
def size(path: Path) -> int:
    """Return the bytes of a file."""
    return path.stat().st_size


@operation
def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


@operation
def write(path: Path, content: bytes) -> None:
    """Create a file and sync it to the disk. An existing file is an error."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@operation
def append(path: Path, content: bytes) -> None:
    """Append to a file, created if absent. Only `sync` makes it survive a power cut."""
    with path.open("ab") as file:
        file.write(content)


@operation
def sync(path: Path) -> None:
    """Sync a file's bytes, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@operation
def rename_to(path: Path, target: Path) -> None:
    path.rename(target)


@operation
def replace(path: Path, target: Path) -> None:
    path.replace(target)


@operation
def touch(path: Path) -> None:
    os.utime(path)


@operation
def read(path: Path) -> bytes:
    return path.read_bytes()


@operation
def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@operation
def remove(path: Path) -> None:
    """Remove a file or a whole folder. A path that is already absent is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=_raise_unless_gone)
    else:
        path.unlink(missing_ok=True)


def _raise_unless_gone(
    operation: Callable[..., object], name: object, info: tuple[object, BaseException, object]
) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]


@contextmanager
def replacing(path: Path) -> Generator[Path, None, None]:
    """Yield a draft path; it replaces `path` when the block succeeds and is removed otherwise.

    Raises:
        StorageError: disk full, no permission, no such folder.
    """
    draft = path.with_name(unique(f".{path.name}"))
    try:
        yield draft
        replace(draft, path)
    except SentembError:  # some are OSErrors with a better message
        raise
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. No incomplete file is there. "
            "Check free space and permissions, or name another file."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_in(folder: Path) -> Generator[Path, None, None]:
    """Yield a draft folder in `folder`; its files move into place when the block succeeds.

    Raises:
        StorageError: the disk refuses. Every file in place is then whole, old or new.
    """
    draft = folder / unique(".new")
    make_folder(draft)
    try:
        with storage_errors(folder):
            yield draft
        for file in sorted(path for path in draft.rglob("*") if path.is_file()):
            target = folder / file.relative_to(draft)
            make_folder(target.parent)
            replace(file, target)
    finally:
        remove(draft)


def require_free(folder: Path, size: int, what: str) -> None:
    """Check before the work that the disk can hold its result.

    Raises:
        StorageError: fewer than `size` bytes are free below `folder`.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StorageError(
            f"{what} need {in_units(size)}; {in_units(free)} are free at {folder}. Free space, or "
            "name a folder on a larger disk (SENTEMB_HOME for the home)."
        )


def unique(name: str) -> str:
    """Return `name` with a unique suffix."""
    return f"{name}-{uuid.uuid4().hex}"


def write_atomically(path: Path, content: bytes, scratch: Path) -> None:
    """Replace the content of `path`: after a kill it is the old or the new content, never a mix.

    `scratch` is a folder on the same file system.
    """
    make_folder(scratch)
    make_folder(path.parent)
    draft = scratch / unique(path.name)
    try:
        write(draft, content)
        replace(draft, path)
        sync(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
