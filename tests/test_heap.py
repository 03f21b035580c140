"""In a process of their own: a hole in a heap that was used before would hold any block."""

import platform
import subprocess
import sys

import pytest

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
PROBE = f"""
import ctypes
from sentemb_core.heap import HIGHEST, LARGE, steady_heap, trim_heap, warm_heap

libc = ctypes.CDLL(None)
Mallinfo = type("Mallinfo", (ctypes.Structure,),
                {{"_fields_": [(name, ctypes.c_size_t) for name in "{FIELDS}".split()]}})
libc.mallinfo2.restype = Mallinfo
libc.malloc.restype = ctypes.c_void_p

def mapped(size):
    before = libc.mallinfo2().hblks
    libc.malloc(ctypes.c_size_t(size))
    return libc.mallinfo2().hblks > before

"""


def printed(program: str) -> str:
    """What a fresh process says."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("glibc's thresholds")
    done = subprocess.run(
        [sys.executable, "-c", PROBE + program], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def test_large_blocks_are_mapped_inside_and_only_the_largest_after():
    told = printed(
        "with steady_heap(): print(mapped(2 * LARGE), mapped(LARGE // 4))\n"
        "print(mapped(2 * LARGE), mapped(2 * HIGHEST))"
    )
    assert told == "True False\nFalse True"


def test_nothing_is_mapped_while_the_heap_is_warm():
    told = printed(
        "with warm_heap(): print(mapped(2 * LARGE), mapped(2 * HIGHEST))\n"
        "print(mapped(2 * LARGE), mapped(2 * HIGHEST))"
    )
    assert told == "False False\nFalse True"


def test_a_warm_heap_finds_its_pages_again():
    told = printed(
        "import resource\n"
        "libc.free.argtypes = [ctypes.c_void_p]\n"
        "libc.prctl(41, 1, 0, 0, 0)\n"  # PR_SET_THP_DISABLE: a huge page is one fault
        "def faults():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    block = libc.malloc(ctypes.c_size_t(2 * HIGHEST))\n"
        "    ctypes.memset(block, 1, 2 * HIGHEST)\n"
        "    libc.free(block)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "faults()\n"
        "cold = faults()\n"
        "with warm_heap():\n"
        "    faults()\n"
        "    print(cold > 1_000, faults() < 100)"
    )
    assert told == "True True"


def test_a_trimmed_heap_gives_back_what_lies_below_a_block_in_use():
    told = printed(
        "from pathlib import Path\n"
        "from resource import getpagesize\n"
        "libc.free.argtypes = [ctypes.c_void_p]\n"
        "def resident():\n"
        "    return int(Path('/proc/self/statm').read_text().split()[1]) * getpagesize()\n"
        "blocks = [libc.malloc(ctypes.c_size_t(LARGE // 4)) for _ in range(1_000)]\n"
        "for block in blocks: ctypes.memset(block, 1, LARGE // 4)\n"
        "for block in blocks[:-1]: libc.free(block)\n"
        "kept = resident()\n"
        "trim_heap()\n"
        "print(kept - resident() > 900 * (LARGE // 4))"
    )
    assert told == "True"


@pytest.mark.parametrize("way", ["steady_heap", "warm_heap"])
def test_a_failed_pass_leaves_the_thresholds_as_a_finished_one_does(way):
    told = printed(
        "try:\n"
        f"    with {way}(): raise ValueError\n"
        "except ValueError: print(mapped(2 * LARGE), mapped(2 * HIGHEST))"
    )
    assert told == "False True"
