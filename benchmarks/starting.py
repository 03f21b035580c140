"""CPU-seconds of `--help`, beside the bare interpreter.

    python benchmarks/starting.py

The minimum of five fresh processes. The promise is 0.4 s.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.promises import kept

TIMES = 5
COMMANDS = {
    "bare interpreter": ["-c", "pass"],
    "sentemb --help": ["-m", "sentemb_core.cli", "--help"],
    "sentemb methods": ["-m", "sentemb_core.cli", "methods"],
    "python -m flows --help": ["-m", "flows", "--help"],
    "python -m flows run --help": ["-m", "flows", "run", "--help"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """Return the minimum of `TIMES` runs, user and system time together."""
    return min(one_run(arguments) for _ in range(TIMES))


def one_run(arguments: list[str]) -> float:
    before = os.times()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        cwd=Path(__file__).parents[1],
        stdout=subprocess.DEVNULL,
    )
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def main() -> bool:
    seconds = {name: cpu_seconds(arguments) for name, arguments in COMMANDS.items()}
    print(f"bare interpreter: {seconds.pop('bare interpreter'):.2f}")
    results = [kept(name, spent, at_most=0.4) for name, spent in seconds.items()]
    return all(results)


if __name__ == "__main__":
    sys.exit(not main())
