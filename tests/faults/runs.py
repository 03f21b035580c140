"""A run of this folder's scripts in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from sentemb_core.types import Json

ROOT = Path(__file__).parents[2]


def run_of(
    source: Path, home: Path, seed: int, script: str, *more: str, **environment: str
) -> Json:
    """What a script prints of a corpus in a home."""
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "faults" / script),
            str(source),
            str(home),
            str(seed),
            *more,
        ],
        cwd=source.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
