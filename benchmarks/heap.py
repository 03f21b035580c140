"""A step on the warm heap that training keeps against one on glibc's own, in CPU-seconds.

Run with `python benchmarks/heap.py`. Each in processes of its own, in turns, one thread, bfloat16:
MiniLM by SimCSE, whose largest tensor is the gradient of its token table, and a small transformer
by the CLM autoencoder, whose largest are its logits. Page faults are what sets the two apart.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from statistics import median
from unittest.mock import patch

import pyarrow.parquet as pq

from benchmarks.training import DATA, tokenised, trained
from sentemb_core.config.run import EncoderConfig, TrainingConfig
from sentemb_core.encoder.start import start_encoder
from sentemb_core.heap import warm_heap

CASES = {"minilm": "simcse", "transformer": "clm_autoencoder"}
STEPS = 13
SETTLED = 3
"""Steps before the heap has its size."""


def print_step(start: str, heap: str) -> None:
    """Median CPU-seconds and faults of a step in this process, whose heap nobody used before."""
    sentences = chain.from_iterable(pq.read_table(DATA)["sentences"].to_pylist())
    encoder = start_encoder(EncoderConfig(name=start, dim=128), sentences)
    with tempfile.TemporaryDirectory() as folder:
        config = TrainingConfig(method=CASES[start], steps=STEPS, dtype="bfloat16", threads=1)
        corpus = tokenised(encoder, 150, Path(folder))
        told: list[tuple[float, int]] = []

        def on_step(_: int, __: dict[str, float]) -> None:
            told.append((time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt))

        kept = warm_heap if heap == "warm" else nullcontext
        with patch("sentemb_core.training.loop.warm_heap", kept):
            trained(encoder, corpus, config, on_step=on_step)
    steps = list(zip(told[SETTLED:], told[SETTLED + 1 :], strict=False))
    seconds = median(after[0] - before[0] for before, after in steps)
    print(seconds, median(after[1] - before[1] for before, after in steps))


def measured(start: str, heap: str) -> tuple[float, int]:
    """CPU-seconds and page faults of a step."""
    command = [sys.executable, __file__, "--step", start, heap]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[-2]), int(float(told[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        print_step(*asked.step)
        return
    for start, method in CASES.items():
        best = {"own": (float("inf"), 0), "warm": (float("inf"), 0)}
        for _ in range(asked.rounds):
            for heap in best:
                best[heap] = min(best[heap], measured(start, heap))
        for heap, (seconds, faults) in best.items():
            print(
                f"  {method} from {start}, {heap:4s} heap: {seconds:.3f} CPU-s, {faults:,} faults"
            )
        print(f"{method} from {start}, own / warm: {best['own'][0] / best['warm'][0]:.2f}")


if __name__ == "__main__":
    main()
