"""Each probe runs in its own process: a used heap would have holes for any block."""

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


def output_of(program: str) -> str:
    """Output of the program in a fresh process."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("glibc's thresholds")
    done = subprocess.run(
        [sys.executable, "-c", PROBE + program], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("way", "sizes", "maps"),
    [
        ("steady_heap", "2 * LARGE, LARGE // 4", "True False"),
        ("warm_heap", "2 * LARGE, 2 * HIGHEST", "False False"),
    ],
)
def test_a_heap_maps_blocks_by_its_thresholds_until_its_end_or_an_error(way, sizes, maps):
    output = output_of(
        f"with {way}(): print(*map(mapped, ({sizes})))\n"
        "print(mapped(2 * LARGE), mapped(2 * HIGHEST))\n"
        "try:\n"
        f"    with {way}(): raise ValueError\n"
        "except ValueError: print(mapped(2 * LARGE), mapped(2 * HIGHEST))"
    )
    assert output == f"{maps}\nFalse True\nFalse True"


def test_a_warm_heap_reuses_its_pages():
    output = output_of(
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
    assert output == "True True"


def test_trimming_returns_pages_below_a_used_block():
    output = output_of(
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
    assert output == "True"
