"""Properties of this machine that a computation depends on, found without importing torch."""

import math
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sentemb_core.types import Precision

CPU = Path("/proc/cpuinfo")

QUOTAS = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
"""Files with a container's share of the processors (cgroups 2 and 1)."""


def installed(distribution: str) -> str | None:
    """Return a distribution's version without its build tag; None if it is not installed."""
    try:
        return version(distribution).partition("+")[0]
    except PackageNotFoundError:
        return None


def processors() -> int:
    """Return how many processors this process may use, at most the container's share."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(count, quota() or count)


def quota() -> int | None:
    """Return the container's share in whole processors; None if there is no limit."""
    second, first = QUOTAS
    try:
        if second.is_file():
            used, period = second.read_text(encoding="ascii").split()
        else:
            used = first.read_text(encoding="ascii")
            period = first.with_name("cpu.cfs_period_us").read_text(encoding="ascii")
        return max(1, math.ceil(int(used) / int(period))) if int(used) > 0 else None
    except (OSError, ValueError):  # no file, or "max"
        return None


def keep_to_quota() -> None:
    """Limit threads to the container's share, unless OMP_NUM_THREADS is set. Call before torch."""
    if quota():
        os.environ.setdefault("OMP_NUM_THREADS", str(processors()))


DRIVER = Path("/dev/nvidiactl")


def default_device() -> str:
    """Return `cuda` if torch is built for it and a visible driver is loaded, else `cpu`."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    if hidden or not DRIVER.exists():
        return "cpu"
    try:
        return "cpu" if version("torch").endswith("+cpu") else "cuda"
    except PackageNotFoundError:
        return "cuda"


def fast_precision() -> Precision:
    """Return the fastest precision: bfloat16 on CUDA and on processors with units for it.

    Speed of bfloat16 over float32 with MiniLM, to encode and to train; other processors were not
    measured and use float32:

        AMD AVX-512 (Zen 4)             1.9  1.8
        Intel AMX                       1.4  1.8
        Intel AVX-512 with bfloat16      .6   .7
        Intel AVX-512 without            .3   .3
        Intel AVX2                       .2   .06
        H200, batches of 64 / 256 pairs 1.3   .8 / 1.7  (`benchmarks/gpu.py`)
    """
    fast = default_device() == "cuda" or multiplies_bfloat16()
    return "bfloat16" if fast else "float32"


def multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 faster than float32 (Linux only)."""
    flags = set(CPU.read_text(encoding="utf-8").split()) if CPU.is_file() else set[str]()
    return "amx_bf16" in flags or {"AuthenticAMD", "avx512_bf16"} <= flags
