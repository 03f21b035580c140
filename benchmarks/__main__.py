"""python -m benchmarks: speed ratios in CPU-seconds of this machine, each with its promise.

The exit code is 1 if a promise is missed. The bfloat16 promises need a processor with bfloat16
units.

encode.py    sentences per CPU-second, at least twice those of sentence-transformers (bfloat16)
annotate.py  documents per CPU-second, at least 20 times those of networkx, with equal labels
search.py    exact search at least .6 times, validation ranking .5 times as fast as faiss's search
training.py  pairs per CPU-second: cluster batches at least 3 times pair batches; memory of the
             gradient cache at batch 3,200 at most 1.3 times that at 128
views.py     views of a batch: at most a tenth of a training step
starting.py  `--help` in at most 0.4 s, `status` and `where` in at most 1 s; a rerun that is cached

Run by hand: `stream.py` (flat memory up to 4 GB of input, an hour), `soak.py` (fifty runs through
one service), `gpu.py` (CUDA), `index.py` (a search in 100,000 documents), `reliability.py` (the
table of docs/reliability.md), `main_job.py` and `retriever_study.py` (tables of docs/results/).
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("encode.py", "annotate.py", "search.py", "training.py", "views.py", "starting.py")

if __name__ == "__main__":
    missed: list[str] = []
    for script in SCRIPTS:
        print(f"\n{script}", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script)],
            check=False,
            env=os.environ | {"PYTHONPATH": str(HERE.parent)},
        )
        missed += [script] * (done.returncode != 0)
    sys.exit(f"Missed promises: {', '.join(missed)}" if missed else 0)
