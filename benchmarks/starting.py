"""CPU-seconds of `--help`, beside the bare interpreter.

    python benchmarks/starting.py

The minimum of five fresh processes. The promise is 0.4 s.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.promises import fastest, kept

ROOT = Path(__file__).parents[1]
TIMES = 5
COMMANDS = {
    "bare interpreter": ["-c", "pass"],
    "sentemb --help": ["-m", "sentemb_core.cli", "--help"],
    "sentemb methods": ["-m", "sentemb_core.cli", "methods"],
    "python -m flows --help": ["-m", "flows", "--help"],
    "python -m flows run --help": ["-m", "flows", "run", "--help"],
}


def child_seconds() -> float:
    """Return user and system time of all finished child processes."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> bool:
    run = partial(subprocess.run, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    ways = {name: partial(run, [sys.executable, *words]) for name, words in COMMANDS.items()}
    seconds, _ = fastest(ways, TIMES, child_seconds)
    print(f"bare interpreter: {seconds.pop('bare interpreter'):.2f}")
    results = [kept(name, spent, at_most=0.4) for name, spent in seconds.items()]
    return all(results)


if __name__ == "__main__":
    sys.exit(not main())
