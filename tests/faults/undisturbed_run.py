"""The run that `killed_runs.py` kills, left alone."""

import json
import os
import sys
from pathlib import Path

import torch

from tests.faults.killed_runs import run_of

if __name__ == "__main__":
    os.environ["SENTEMB_HOME"] = sys.argv[2]
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps({"survivor": run_of(Path(sys.argv[1]))}))
