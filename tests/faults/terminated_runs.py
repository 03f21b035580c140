"""Runs of the flow that get a SIGTERM at a random moment, until so many have obeyed it.

    python tests/faults/terminated_runs.py CORPUS HOME SEED COUNT

One process forks a child for each, so imports cost once. Each goes on where the last one ended; a
run that ends before its signal starts again. Prints a JSON line: the exit statuses, the seconds
from signal to exit, the states of the run in its record, and what the survivor made.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from sentemb_core.store import runs
from sentemb_core.store.objects import Store
from sentemb_core.termination import STATUS, Terminated, terminable
from tests.faults.killed_runs import run_of

RUN = "terminated"


def child(source: Path) -> int:
    """Start or resume the run, as a command line does; return the exit status."""
    store = Store.default()
    resumed = runs.read_run(store, RUN) is not None
    try:
        with terminable(), runs.recording(store, RUN, [], {}, resumed=resumed):
            run_of(source)
    except Terminated:
        return STATUS
    return 0


def signalled(source: Path, delay: float) -> tuple[int, float]:
    """Return the status of a forked run that gets SIGTERM after a delay, and its seconds then."""
    process = os.fork()
    if process == 0:
        os._exit(child(source))
    time.sleep(delay)
    began = time.monotonic()
    os.kill(process, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return status, time.monotonic() - began


def main() -> None:
    source, home, seed, count = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
    os.environ["SENTEMB_HOME"] = str(home)
    torch.set_num_threads(1)
    rng = random.Random(seed)
    statuses, seconds, states = list[int](), list[float](), list[str]()
    while len(statuses) < count:
        status, spent = signalled(source, rng.uniform(0.0, 1.0))
        if status == 0:  # it ended first
            shutil.rmtree(home)
            continue
        statuses.append(status)
        seconds.append(spent)
        states.append(run.state if (run := runs.read_run(Store(home), RUN)) else "not begun")
    survivor = run_of(source)
    found = {"statuses": statuses, "seconds": seconds, "states": states, "survivor": survivor}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
