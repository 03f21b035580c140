import ctypes
import platform
from collections.abc import Callable

import numpy as np
import pytest

from sentemb_core.corpus.heap import HIGHEST, LARGE, steady_heap

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Mallinfo(ctypes.Structure):
    """What mallinfo2(3) gives."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


@pytest.fixture
def mapped() -> Callable[[int], bool]:
    """Whether a block of so many bytes has a map of its own."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("glibc's thresholds")
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo

    def maps(size: int) -> bool:
        before = mallinfo().hblks
        block = np.empty(size, np.uint8)
        return bool(mallinfo().hblks > before and len(block))

    return maps


def test_large_blocks_are_mapped_inside_and_only_the_largest_after(
    mapped: Callable[[int], bool],
) -> None:
    with steady_heap():
        assert mapped(2 * LARGE)
        assert not mapped(LARGE // 4)
    assert not mapped(2 * LARGE)
    assert mapped(2 * HIGHEST)


def test_a_failed_pass_leaves_the_thresholds_as_a_finished_one_does(
    mapped: Callable[[int], bool],
) -> None:
    with pytest.raises(ValueError, match="half way"), steady_heap():
        raise ValueError("half way")
    assert not mapped(2 * LARGE)
