"""Where encoders compute, and by how many threads."""

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
    """So many threads of torch inside; none: as many as there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def any_shape() -> AbstractContextManager[object]:
    """Attention on CUDA without cuDNN's, which makes a plan for every new shape in every thread.

    Batches of sentences have many. On an H200 a plan took some 20 ms, and MiniLM encodes in
    bfloat16 5.3 times as fast without (`benchmarks/gpu.py`).
    """
    return sdpa_kernel(WITHOUT_PLANS)


@contextmanager
def one_thread_each(device: torch.device) -> Generator[ThreadPoolExecutor]:
    """As many workers as torch has threads, each with one of them; for a GPU a single worker.

    Batches side by side use two cores better than one batch on both (MiniLM 1.4 times in bfloat16,
    `benchmarks/encode.py`), and the last bits do not depend on how many there are.
    """
    count = torch.get_num_threads() if device.type == "cpu" else 1
    alone = partial(torch.set_num_threads, 1)
    with threads(1), ThreadPoolExecutor(count, initializer=alone) as pool:
        yield pool
