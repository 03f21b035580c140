"""The device on which encoders compute, and the number of threads."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

WITHOUT_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def compute_device() -> torch.device:
    """The first CUDA device that torch sees, else the CPU; `CUDA_VISIBLE_DEVICES=` hides them."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def threads(wanted: int | None) -> Generator[None]:
    """Set the number of torch threads inside this context; None leaves it unchanged."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def any_shape() -> AbstractContextManager[object]:
    """Disable cuDNN attention on CUDA, which makes a plan for every new shape in every thread.

    Batches of sentences have many shapes. On an H200, a plan took about 20 ms, and without plans
    MiniLM encodes 5.3 times as fast in bfloat16 (`benchmarks/gpu.py`).
    """
    return sdpa_kernel(WITHOUT_PLANS)


@contextmanager
def one_thread_each(device: torch.device) -> Generator[ThreadPoolExecutor]:
    """A pool with one worker a torch thread, each computing with one thread; one worker for a GPU.

    Two batches in parallel use two cores better than one batch on both: MiniLM is 1.4 times as fast
    in bfloat16 (`benchmarks/encode.py`). The last bits do not depend on the number of workers.
    """
    count = torch.get_num_threads() if device.type == "cpu" else 1
    alone = partial(torch.set_num_threads, 1)
    with threads(1), ThreadPoolExecutor(count, initializer=alone) as pool:
        yield pool
