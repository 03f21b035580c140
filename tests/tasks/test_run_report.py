"""The facts of a run's report."""

from pathlib import Path

import pytest

from tasks.run_report import commit


def test_a_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An image of a few programs has none, and the run is over by then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"
