"""What a person waits for around the computing, in CPU-seconds and on the clock.

    python benchmarks/starting.py

`--help` beside the bare interpreter: the minimum of five fresh processes, at most 0.4 s. Then a run
of 1,000 shipped documents from nothing in a new home (two rounds, few steps), the same run again,
`status` and `where`. The server that a run starts counts apart. The clock depends on what else the
machine does, so the load stands beside it.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.promises import fastest, kept, measured
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs

ROOT = Path(__file__).parents[1]
TIMES = 5
COMMANDS = {
    "bare interpreter": ["-c", "pass"],
    "sentemb --help": ["-m", "sentemb_core.cli", "--help"],
    "sentemb methods": ["-m", "sentemb_core.cli", "methods"],
    "python -m flows --help": ["-m", "flows", "--help"],
    "python -m flows run --help": ["-m", "flows", "run", "--help"],
}

RUN = (
    "run data/blog_usgov.parquet --id-column doc_id --sentences-column sentences "
    "--counterpart-column title --set corpus.min_sentences=5 --set corpus.max_sentences=20 "
    "--set corpus.max_documents=1000 --name waits --encoder static --rounds 2 "
    "--set rounds.patience=2 --set training.steps=60 --set initialiser.steps=60"
)

COMPUTING = re.compile("encode_sentences|validate_encoder|train|graph|cluster|related|pairs")
"""Stages that encode, train or annotate; the rest of a run's time is around them."""

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans, such as a run's server, become our children."""


class Cost(NamedTuple):
    """CPU-seconds of a command and of the server it started, and seconds until it returned."""

    own: float
    server: float
    clock: float
    first_stage: float


def child_seconds() -> float:
    """Return user and system time of all finished child processes."""
    times = os.times()
    return times.children_user + times.children_system


def cost_of(words: Sequence[str], home: Path) -> Cost:
    """Run a command of `flows` in a home, wait for its server, and return what both cost."""
    before, began, first = child_seconds(), time.monotonic(), 0.0
    command = [sys.executable, "-m", "flows", *words]
    environment = os.environ | {"SENTEMB_HOME": str(home)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if not first and re.search(rb"read_corpus", line):
                first = time.monotonic() - began
    clock, own = time.monotonic() - began, child_seconds() - before
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    while True:  # the server ends with its last run
        try:
            os.wait()
        except ChildProcessError:
            return Cost(own, child_seconds() - before - own, clock, first)


def show(name: str, cost: Cost) -> None:
    load = os.getloadavg()[0]
    print(
        f"{name}: {cost.own:.2f} CPU-s, server {cost.server:.2f}; {cost.clock:.1f} s on the clock "
        f"at load {load:.1f}"
    )


def around_computing(home: Path, cost: Cost) -> float:
    """Return the seconds of a run that no stage spent on encoding, training or annotating."""
    (run,) = last_runs(Store(home))
    stages = [used for used in run.stages if COMPUTING.search(used.stage) and not used.hit]
    return cost.clock - sum(used.seconds for used in stages)


def waits() -> list[bool]:
    """Measure a run in a new home, the same run again, and what looks at them."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first = cost_of(RUN.split(), home)
        show("run of 1,000 documents in a new home", first)
        print(f"  its first stage began after {first.first_stage:.1f} s")
        around = around_computing(home, first)
        print(f"  outside encode, train and annotate: {around:.1f} s")
        measured("first stage", first.first_stage)
        measured("around", around)
        again = cost_of(RUN.split(), home)
        show("the same run again", again)
        measured("rerun", again.clock)
        looks = {
            "status": cost_of(["status"], home),
            "where models:/waits/1": cost_of(["where", "models:/waits/1"], home),
        }
        for name, cost in looks.items():
            show(name, cost)
            measured(name.split()[0], cost.own)
    return [
        kept("the same run again, with its server", again.own + again.server, at_most=16),
        *(kept(name, cost.own, at_most=1) for name, cost in looks.items()),
    ]


def main() -> bool:
    run = partial(subprocess.run, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    ways = {name: partial(run, [sys.executable, *words]) for name, words in COMMANDS.items()}
    seconds, _ = fastest(ways, TIMES, child_seconds)
    print(f"bare interpreter: {seconds.pop('bare interpreter'):.2f}")
    measured("help", max(spent for name, spent in seconds.items() if "--help" in name))
    results = [kept(name, spent, at_most=0.4) for name, spent in seconds.items()]
    return all(results + waits())


if __name__ == "__main__":
    sys.exit(not main())
