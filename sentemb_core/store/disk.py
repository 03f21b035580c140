"""The file-system operations of the store: durable, and failing with their name and their path."""

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

P = ParamSpec("P")
R = TypeVar("R")
ABSENCE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""What a disk says when it will not take more."""


def perform(operation: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Carry out one operation. Fault tests replace this function to fail or to kill at the n-th."""
    return operation(*args, **kwargs)


def operation(function: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """A file-system operation on a path; a failure becomes a `StorageError` that names both.

    Absence is an answer, not a failure: `FileNotFoundError` and its kin pass through.
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
    """What a person reads when the disk refuses."""
    what = operation.strip("_").replace("_", " ")
    failure = StorageError(
        f"The store could not {what} {path}: {error.strerror or error}. "
        "Nothing incomplete was left in place. Free space, permissions or open files (or move the "
        "home to a larger disk and set SENTEMB_HOME to it) and run again: finished stages are kept."
    )
    failure.errno = error.errno
    return failure


@contextmanager
def storage_errors(path: Path) -> Generator[None, None, None]:
    """Turn what a disk refuses to any writer below `path` (`REFUSALS`) into a `StorageError`."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number not in REFUSALS or isinstance(error, SentembError):
            raise
        raise storage_error("write below", path, OSError(number, os.strerror(number))) from error


def _error_number(error: Exception) -> int:
    """The errno behind an exception; Rust libraries (safetensors) put it into their text alone."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    told = re.search(r"(?:os error|[Ee]rrno) (\d+)", str(error))
    return int(told[1]) if told else 0


@operation
def size(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


@operation
def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


@operation
def write(path: Path, content: bytes) -> None:
    """A new file with this content, on the disk itself when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@operation
def append(path: Path, content: bytes) -> None:
    """More at the end of a file, made if absent: it outlives the process, a power cut if synced."""
    with path.open("ab") as file:
        file.write(content)


@operation
def sync(path: Path) -> None:
    """Bring a file's bytes, or a folder's entries, to the disk itself."""
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
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@operation
def remove(path: Path) -> None:
    """A file or a folder with all in it; what is already gone, or just goes, is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=_raise_unless_gone)
    else:
        path.unlink(missing_ok=True)


def _raise_unless_gone(
    operation: Callable[..., object], name: str, info: tuple[object, BaseException, object]
) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]


@contextmanager
def replacing(path: Path) -> Generator[Path, None, None]:
    """A scratch name beside `path`, whose place it takes when the block ends well, and else goes.

    Raises:
        StorageError: disk full, no permission, no such folder.
    """
    draft = path.with_name(unique(f".{path.name}"))
    try:
        yield draft
        replace(draft, path)
    except SentembError:  # some are kinds of OSError, and say more
        raise
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. Nothing incomplete was left "
            "there. Free space or permissions, or name another file."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_in(folder: Path) -> Generator[Path, None, None]:
    """A scratch folder in `folder`, whose files take their places there if the block ends well.

    Raises:
        StorageError: the disk refuses; whole files are there, of before or new.
    """
    draft = folder / unique(".new")
    make_folder(draft)
    try:
        with storage_errors(folder):
            yield draft
        for file in sorted(path for path in draft.rglob("*") if path.is_file()):
            place = folder / file.relative_to(draft)
            make_folder(place.parent)
            replace(file, place)
    finally:
        remove(draft)


def require_free(folder: Path, size: int, what: str) -> None:
    """Refuse before the work what the disk could not hold after it.

    Raises:
        StorageError: fewer than `size` bytes are free below `folder`.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StorageError(
            f"{what} take {size / 1e9:,.1f} GB and {free / 1e9:,.1f} GB are free at {folder}. Free "
            "space, or move the home to a larger disk and set SENTEMB_HOME to it."
        )


def unique(name: str) -> str:
    """`name` with a suffix that no other process has."""
    return f"{name}-{uuid.uuid4().hex}"


def write_atomically(path: Path, content: bytes, scratch: Path) -> None:
    """Old or new content at `path`, never a mixture, whatever dies in between.

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
