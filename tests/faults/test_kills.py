"""kill -9 at random moments of every stage, then on: the same artifacts, to the last bit."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.killed_runs import CHECKPOINT, TARGETS
from tests.flows.corpora import write_corpus

ROOT = Path(__file__).parents[2]


def run_of(source: Path, home: Path, seed: int, script: str, **environment: str) -> dict:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "faults" / script),
            str(source),
            str(home),
            str(seed),
        ],
        cwd=source.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


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
