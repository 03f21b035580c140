"""Sentences of every length."""

import pytest

from tests.encoder.starting import invented


@pytest.fixture
def sentences() -> list[str]:
    """Short, longer than 32 tokens, repeated, with unknown characters."""
    return [*invented(40, 12, seed=2), "benefit claim " * 40, "Café ☃ form", "Café ☃ form"]
