"""Settings of glibc's heap: constant size, reused pages, or pages returned to the system."""

import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # of mallopt(3), glibc
LARGE = 256 << 10
"""Bytes from which a block gets its own memory map. glibc starts at half of it, and every freed map
raises the threshold, up to 32 MB. Then blocks of all sizes share the heap and leave holes (reading
4 GB of JSONL: 11 MB; with this threshold: 3 MB)."""
HIGHEST = 32 << 20
"""glibc's own threshold after some training. glibc trims the heap from twice as much."""
MAPS = 65_536
"""glibc's default limit of memory maps."""


@contextmanager
def steady_heap() -> Generator[None]:
    """In this block, blocks of LARGE bytes and more get memory maps, so the heap does not grow.

    Only for loops over small arrays: mapping the large arrays of a training costs page faults.
    """
    with _set((M_MMAP_THRESHOLD, LARGE)):
        yield


@contextmanager
def warm_heap() -> Generator[None]:
    """In this block, freed memory stays with the process, and the next step reuses its pages.

    Otherwise each training step maps its largest tensors again, and the system zeroes every page.
    On a virtual machine this takes 4 % of a MiniLM step (69,000 faults), and 11 % of an
    autoencoder's step.
    """
    with _set((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1)):
        yield
    trim_heap()


def trim_heap() -> None:
    """Return the pages of freed blocks to the system, also those between used blocks."""
    if (trim := _libc("malloc_trim")) is not None:
        trim(0)


@contextmanager
def _set(*options: tuple[int, int]) -> Generator[None]:
    """Set options of mallopt in this block; afterwards the values after some training."""
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
    """A function of glibc; None on other systems."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
