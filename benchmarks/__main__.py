"""python -m benchmarks: speed ratios in CPU-seconds of this machine, each with its promise.

Last comes the table of goals (`promises.GOALS`), each row measured in this run. The exit code is 1
if a promise is missed. The bfloat16 promises need a processor with bfloat16 units.

encode.py    sentences per CPU-second, at least twice those of sentence-transformers (bfloat16)
runtimes.py  the same in float32, beside OpenVINO and ONNX Runtime where these are installed
annotate.py  documents per CPU-second, at least 20 times those of networkx, with equal labels
search.py    exact search at least .6 times, validation ranking .5 times as fast as faiss's search
training.py  pairs per CPU-second: cluster batches at least 3 times pair batches; memory of the
             gradient cache at batch 3,200 at most 1.3 times that at 128
views.py     views of a batch: at most a tenth of a training step
growth.py    the vocabulary and tokens of 16,000 documents
starting.py  `--help` in at most 0.4 s, `status` and `where` in at most 1 s; a rerun that is cached

Run by hand: `stream.py` (flat memory up to 4 GB of input, an hour), `soak.py` (fifty runs through
one service), `gpu.py` (CUDA), `index.py` (a search in 100,000 documents), `reliability.py` (the
table of docs/reliability.md), `main_job.py` and `retriever_study.py` (tables of docs/results/).
"""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.promises import ROWS, goal_table

HERE = Path(__file__).parent
SCRIPTS = (
    "encode.py",
    "runtimes.py",
    "annotate.py",
    "search.py",
    "training.py",
    "views.py",
    "growth.py",
    "starting.py",
)


def measure(rows: Path) -> list[str]:
    """Run all scripts, which append to `rows`; return those that miss a promise."""
    missed: list[str] = []
    path = [str(HERE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    for script in SCRIPTS:
        print(f"\n{script}", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script)],
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path), ROWS: str(rows)},
        )
        missed += [script] * (done.returncode != 0)
    return missed


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        missed = measure(rows)
        values = dict(map(json.loads, rows.read_text().splitlines()))
    print("", *goal_table(values), sep="\n")
    print(f"\n{platform.machine()}, load {os.getloadavg()[0]:.1f}, torch {version('torch')}")
    sys.exit(f"Missed promises: {', '.join(missed)}" if missed else 0)
