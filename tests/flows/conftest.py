"""One small corpus for all whole-run tests, and the command line."""

from functools import partial
from pathlib import Path

import pytest

from flows.__main__ import app
from tests.flows.corpora import write_corpus


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "documents.jsonl")


@pytest.fixture
def call(answer):
    """Exit code, stdout and stderr of `python -m flows ...`, in this process."""
    return partial(answer, app)
