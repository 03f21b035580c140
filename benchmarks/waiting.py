"""How long threads of OpenMP spin before they sleep: a step on all cores, idle and busy.

python benchmarks/waiting.py    # about five minutes, on a machine with nothing else to do

Each in a process of its own: MiniLM by SimCSE, 32 pairs, bfloat16. Busy: beside as many processes
that compute as there are cores.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.training import tokenised, trained
from sentemb_core.config.run import EncoderConfig, TrainingConfig
from sentemb_core.encoder.start import start_encoder

WAITS = {
    "never": "0",
    "3,000 times (ours)": "3000",
    "30,000 times": "30000",
    "300,000 times (libgomp's own)": "300000",
}
CORES = len(os.sched_getaffinity(0))
STEPS = 8
SETTLED = 2


def print_step() -> None:
    """Median seconds of a step in this process."""
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    config = TrainingConfig(
        method="simcse", steps=STEPS, batch_size=32, dtype="bfloat16", threads=CORES
    )
    told: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 150, Path(folder))
        trained(encoder, corpus, config, on_step=lambda *_: told.append(time.perf_counter()))
    print(median(b - a for a, b in zip(told[SETTLED:], told[SETTLED + 1 :], strict=False)))


def measured(spins: str) -> float:
    """Seconds of a step whose threads spin so often."""
    done = subprocess.run(
        [sys.executable, __file__, "--step"],
        env=os.environ | {"GOMP_SPINCOUNT": spins, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


@contextmanager
def busy(others: int) -> Generator[None]:
    """So many processes compute meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main() -> None:
    print(f"seconds of a step, {CORES} threads on {CORES} cores")
    print(f"{'a waiting thread spins':32}{'idle':>8}{'busy':>8}")
    for name, spins in WAITS.items():
        idle = measured(spins)
        with busy(CORES):
            print(f"{name:32}{idle:8.2f}{measured(spins):8.2f}", flush=True)


if __name__ == "__main__":
    print_step() if sys.argv[1:] == ["--step"] else main()
