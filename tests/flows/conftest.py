"""One small corpus for all whole-run tests."""

from pathlib import Path

import pytest

from tests.flows.corpora import write_corpus


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "documents.jsonl")
