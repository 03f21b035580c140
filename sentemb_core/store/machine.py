"""What this machine has that a computation depends on, asked without importing torch."""

import os
import sys
from pathlib import Path

from sentemb_core.types import Precision

CPU = Path("/proc/cpuinfo")


def processors() -> int:
    """Those that this process may use, which on a shared machine are not all."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def default_device() -> str:
    """`cuda` where a driver is loaded and not hidden, else `cpu`."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return "cuda" if Path("/dev/nvidiactl").exists() and not hidden else "cpu"


def fast_precision() -> Precision:
    """What matrix products are fastest in: bfloat16 on CUDA devices and processors with AMX.

    MiniLM, CPU-seconds of float32 over those of bfloat16, oneDNN held to each instruction set on
    one processor (ONEDNN_MAX_CPU_ISA): AMX 1.4 to encode and 1.8 to train, AVX-512 with bfloat16
    .6 and .7, AVX-512 without it .3 and .3, AVX2 .2 and .06. Of other processors nothing was
    measured: float32.
    """
    fast = default_device() == "cuda" or has_amx()
    return "bfloat16" if fast else "float32"


def has_amx() -> bool:
    """Whether this is a processor that multiplies tiles of bfloat16 (on Linux)."""
    return CPU.is_file() and "amx_bf16" in CPU.read_text(encoding="utf-8").split()
