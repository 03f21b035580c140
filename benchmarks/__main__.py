"""python -m benchmarks: every comparison side by side, in CPU-seconds of this machine.

Ends with 1 where a promise is missed; those in bfloat16 are of a processor with units for it.

encode.py    ours against sentence-transformers (at least 2 times with bfloat16)
annotate.py  ours against literal networkx, identical labels (at least 20 times)
training.py  pair batches against sentence-transformers' loss; cluster batches against pair batches
             (at least 3 times); memory of the gradient cache at batch 3,200 against 128 (at most
             1.3 times)
heap.py      a training step on the warm heap against glibc's own
views.py     making a batch's views beside the rest of its step (at most a tenth of it)
starting.py  `--help` beside the bare interpreter (at most 0.4 s)

Started by themselves: `stream_corpus.py` and `stream_run.py` (4 GB of input, flat memory: stage by
stage, and in one run; an hour each), `soak.py` (fifty runs in a row through one service),
`waiting.py` (how long threads spin, on a machine with nothing else to do), and what writes tables
of RESULTS.md: `main_job.py`, `annotation_study.py` (whose ways are in `annotation_variants.py`),
`adaptation.py`, `condenser.py`, `claims.py`, `learning_rates.py`, `maps.py`,
`prototype_documents.py`; `reliability.py`, the table of docs/reliability.md; and `gpu.py`, the
figures of docs/performance.md on a CUDA machine.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    missed: list[str] = []
    for script in ("encode.py", "annotate.py", "training.py", "heap.py", "views.py", "starting.py"):
        print(f"\n{script}", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script)],
            check=False,
            env=os.environ | {"PYTHONPATH": str(HERE.parent)},
        )
        missed += [script] * (done.returncode != 0)
    sys.exit(f"A promise was missed: {', '.join(missed)}" if missed else 0)
