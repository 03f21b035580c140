"""A heap that keeps its size over a long pass: large blocks go back to the system at once."""

import ctypes
import sys
from collections.abc import Generator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3), glibc
LARGE = 256 << 10
"""Bytes from which a block has a memory map of its own. glibc begins at half of it, but every
freed map raises its threshold, up to 32 MB: then blocks of all sizes share the heap, whose holes
grow with the rows that pass (4 GB of JSONL: by 11 MB, at 256 kB by 3)."""
HIGHEST = 32 << 20
"""Where glibc's own threshold ends up in a process that trains; it trims from twice as much."""


@contextmanager
def steady_heap() -> Generator[None]:
    """Inside, blocks of LARGE bytes and more are mapped each; does nothing without glibc.

    For passes of small arrays alone: mapping the large ones of a training anew costs page faults.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mallopt(M_MMAP_THRESHOLD, LARGE)
    try:
        yield
    finally:
        mallopt(M_MMAP_THRESHOLD, HIGHEST)
        mallopt(M_TRIM_THRESHOLD, 2 * HIGHEST)
