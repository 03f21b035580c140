"""The facts of a run's report."""

from pathlib import Path

import pytest

from sentemb_core.configs import CorpusConfig
from tasks.run_report import commit, search_of


def test_a_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An image of a few programs has none, and the run is over by then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"


def test_a_search_that_a_report_tells_of_reads_the_columns_that_the_run_read():
    named = {"id_column": "ticket", "text_column": "the message", "splitter": "regex"}
    told = search_of("models:/tickets/1", CorpusConfig(source="tickets.jsonl", **named))
    assert told == (
        "python -m flows search WORDS SOURCE --model models:/tickets/1 "
        "--text-column 'the message' --id-column ticket --splitter regex"
    )
    usual = search_of("models:/tickets/1", CorpusConfig(source="tickets.jsonl"))
    assert usual == "python -m flows search WORDS SOURCE --model models:/tickets/1"
