"""kill -9 at random moments of every stage, then on: the same artifacts, to the last bit."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.killed_runs import CHECKPOINT, TARGETS
from tests.faults.runs import run_of
from tests.flows.corpora import write_corpus


@pytest.mark.slow
def test_a_run_killed_in_every_stage_ends_as_an_undisturbed_one_in_other_surroundings(
    tmp_path: Path,
):
    source = write_corpus(tmp_path / "documents.jsonl")
    seed = int.from_bytes(os.urandom(2))
    killed = run_of(source, tmp_path / "killed", seed, "killed_runs.py", PYTHONHASHSEED="0")
    (tmp_path / "elsewhere").mkdir()
    moved = source.rename(tmp_path / "elsewhere" / "same.jsonl")
    other = {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "C"}
    undisturbed = run_of(moved, tmp_path / "undisturbed", 0, "undisturbed_run.py", **other)
    stages = {path.name for path in (tmp_path / "undisturbed" / "records").iterdir()}
    assert stages == set(TARGETS) - {CHECKPOINT}, "a stage that nobody killed"
    assert killed["kills"] == Counter(TARGETS)
    assert killed["survivor"] == undisturbed["survivor"]
