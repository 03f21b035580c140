"""glibc's heap: kept at its size, kept warm, or given back."""

import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # of mallopt(3), glibc
LARGE = 256 << 10
"""Bytes from which a block has a memory map of its own. glibc begins at half of it, but every
freed map raises its threshold, up to 32 MB: then blocks of all sizes share the heap, whose holes
grow with the rows that pass (4 GB of JSONL: by 11 MB, at 256 kB by 3)."""
HIGHEST = 32 << 20
"""Where glibc's own threshold ends up in a process that trains; it trims from twice as much."""
MAPS = 65_536
"""How many memory maps glibc makes at most, unless it is told otherwise."""


@contextmanager
def steady_heap() -> Generator[None]:
    """Inside, blocks of LARGE bytes and more are mapped each: the heap keeps its size.

    For passes of small arrays alone: mapping the large ones of a training anew costs page faults.
    """
    with _set((M_MMAP_THRESHOLD, LARGE)):
        yield


@contextmanager
def warm_heap() -> Generator[None]:
    """Inside, freed blocks of any size stay with the process: a step finds the last one's pages.

    Else each step of a training maps its largest tensors anew, and the system hands them out page
    by page, zeroed: on a virtual machine 4 % of a step of MiniLM (69,000 faults) and 11 % of an
    autoencoder's.
    """
    with _set((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1)):
        yield
    trim_heap()


def trim_heap() -> None:
    """Give the system the pages of freed blocks back, those between blocks in use too."""
    if (trim := _libc("malloc_trim")) is not None:
        trim(0)


@contextmanager
def _set(*options: tuple[int, int]) -> Generator[None]:
    """These options of mallopt inside; after it what a process that trains ends up with."""
    mallopt = _libc("mallopt")
    if mallopt is None:
        yield
        return
    for option in options:
        mallopt(*option)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, MAPS)
        mallopt(M_MMAP_THRESHOLD, HIGHEST)
        mallopt(M_TRIM_THRESHOLD, 2 * HIGHEST)


def _libc(name: str) -> Callable[..., int] | None:
    """A function that only glibc has; nothing is done without it."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
