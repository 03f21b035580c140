"""Sentences of every length, and one thread: two cost more than they give on tiny encoders."""

from collections.abc import Iterator

import pytest
import torch

from tests.encoder.starting import invented


@pytest.fixture
def sentences() -> list[str]:
    """Short, longer than 32 tokens, repeated, with unknown characters."""
    return [*invented(40, 12, seed=2), "benefit claim " * 40, "Café ☃ form", "Café ☃ form"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
