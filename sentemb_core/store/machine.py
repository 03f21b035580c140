"""What this machine has that a computation depends on, asked without importing torch."""

import math
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sentemb_core.types import Precision

CPU = Path("/proc/cpuinfo")

QUOTAS = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
"""Where a container reads its share of the processors (cgroups 2 and 1)."""


def installed(distribution: str) -> str | None:
    """Its version, without the tag of its build; None: it is not there. Nothing is imported."""
    try:
        return version(distribution).partition("+")[0]
    except PackageNotFoundError:
        return None


def processors() -> int:
    """Those that this process may use: of the machine's no more than a container's share."""
    found = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(found, quota() or found)


def quota() -> int | None:
    """Whole processors that the container of this process has the time of; None: no limit."""
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
    """Before torch is imported: no more threads than a container's share, unless someone said."""
    if quota():
        os.environ.setdefault("OMP_NUM_THREADS", str(processors()))


DRIVER = Path("/dev/nvidiactl")


def default_device() -> str:
    """`cuda` where torch is built for it and a driver is loaded and not hidden, else `cpu`."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return "cuda" if DRIVER.exists() and not hidden and not built_for_cpu() else "cpu"


def built_for_cpu() -> bool:
    """Whether the torch that is installed is a build without CUDA."""
    try:
        return version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return False


def fast_precision() -> Precision:
    """What products are fastest in: bfloat16 on CUDA devices and processors with units for it.

    MiniLM on one processor, CPU-seconds of float32 over those of bfloat16: AMD's AVX-512 (Zen 4)
    1.9 to encode and 1.8 to train; Intel's AMX 1.4 and 1.8, and with oneDNN held to less
    (ONEDNN_MAX_CPU_ISA) AVX-512 with bfloat16 .6 and .7, AVX-512 without it .3 and .3, AVX2 .2 and
    .06. Of other processors nothing was measured: float32. An H200, by the clock: 1.3 to encode,
    and to train .8 in batches of 64 pairs, 1.7 of 256 (`benchmarks/gpu.py`).
    """
    fast = default_device() == "cuda" or multiplies_bfloat16()
    return "bfloat16" if fast else "float32"


def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32 (on Linux)."""
    words = set(CPU.read_text(encoding="utf-8").split()) if CPU.is_file() else set[str]()
    return "amx_bf16" in words or {"AuthenticAMD", "avx512_bf16"} <= words
