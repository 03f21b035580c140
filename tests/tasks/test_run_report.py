"""The facts of a run's report."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.run_report import commit, folder_of


def test_a_page_is_written_into_the_home_of_today(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The outcome names a place of the home as it was when the run ended."""
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "moved"))
    outcome: Any = SimpleNamespace(run="run-1", report="/elsewhere/reports/run-1/report.html")
    assert folder_of(outcome) == tmp_path / "moved" / "reports" / "run-1"


def test_a_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An image of a few programs has none, and the run is over by then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"
