"""SIGKILL and SIGTERM at random moments, then on: the same artifacts, to the last bit."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sentemb_core.termination import STATUS
from sentemb_core.types import Json
from tests.faults.killed_runs import CHECKPOINT, TARGETS
from tests.faults.runs import ROOT, run_of
from tests.flows.corpora import write_corpus

SECONDS = 15.0
"""From a SIGTERM to the exit."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """Return what a run makes in other surroundings, and the stages that it has."""
    folder = tmp_path_factory.mktemp("undisturbed")
    source = write_corpus(folder / "same.jsonl")
    other = {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "C"}
    made = run_of(source, folder / "home", 0, "undisturbed_run.py", **other)
    return made | {"stages": {path.name for path in (folder / "home" / "records").iterdir()}}


@pytest.mark.slow
def test_a_run_killed_in_every_stage_ends_as_an_undisturbed_one(tmp_path: Path, undisturbed: Json):
    source = write_corpus(tmp_path / "documents.jsonl")
    seed = int.from_bytes(os.urandom(2))
    killed = run_of(source, tmp_path / "killed", seed, "killed_runs.py", PYTHONHASHSEED="0")
    assert undisturbed["stages"] == set(TARGETS) - {CHECKPOINT}, "a stage that nobody killed"
    assert killed["kills"] == Counter(TARGETS)
    assert killed["survivor"] == undisturbed["survivor"]


@pytest.mark.slow
def test_every_sigterm_ends_a_run_that_resumes_to_the_same_end(tmp_path: Path, undisturbed: Json):
    source = write_corpus(tmp_path / "documents.jsonl")
    seed = int.from_bytes(os.urandom(2))
    found = run_of(source, tmp_path / "home", seed, "terminated_runs.py", "8")
    assert set(found["statuses"]) <= {STATUS, -signal.SIGTERM}, "the second: before its handler"
    assert max(found["seconds"]) < SECONDS
    assert set(found["states"]) <= {"killed", "not begun"}
    assert found["survivor"] == undisturbed["survivor"]


def test_a_sigterm_during_the_start_ends_the_program(tmp_path: Path):
    rng = random.Random()
    for begun in (False, True):
        command = [sys.executable, "-m", "flows", "run", "absent.jsonl"]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.5, 2.0) if begun else rng.uniform(0.0, 0.5))
            process.send_signal(signal.SIGTERM)
            code = process.wait(SECONDS)
        assert code in (STATUS, -signal.SIGTERM, 3), "3: the corpus was found absent first"
