"""Peak memory of one whole `python -m flows run`, at N bytes of input and at 10 N.

    python benchmarks/stream_run.py                    # 0.4 and 4 GB: an hour
    python benchmarks/stream_run.py --gigabytes 0.1    # 10 and 100 MB: some minutes

The input is `stream_corpus.py`'s, the command a person's: from nothing, regex splitter, two rounds
with their controls, vectors not kept. All stages, Prefect's client and MLflow's share a process;
its memory counts from the end of a run on 1 MB, which has loaded all that there is to load. The
promise is a growth of at most 5 %; exits with 1 above. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.promises import kept
from benchmarks.stream_corpus import memory, size_options, write_input

COLUMNS = ["--id-column", "id", "--text-column", "text", "--counterpart-column", "title"]
SETTINGS = {
    "rounds.max_rounds": "2",
    "rounds.patience": "2",
    "corpus.splitter": "regex",
    "annotation.keep_embeddings": "false",
}


def peak_of(size: int, parent: Path | None) -> float:
    """MB of a run on `size` bytes, in a process and a home of its own."""
    with TemporaryDirectory(dir=parent, prefix="sentemb-stream-") as name:
        write_input(Path(name) / "warm", 1_000_000)
        write_input(Path(name) / "input", size)
        done = subprocess.run(
            [sys.executable, __file__, "--run", name],
            check=True,
            stdout=subprocess.PIPE,
            env=os.environ | {"SENTEMB_HOME": f"{name}/home"},
        )
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{size / 1e6:.0f} MB: peak {found['peak']:.0f} MB in {found['seconds']:.0f} s", flush=True
    )
    return found["peak"]


def run_in(folder: Path) -> dict[str, float]:
    """The run in this process: its seconds, and its peak above what was there before."""
    command(folder / "warm")
    Path("/proc/self/clear_refs").write_text("5")  # from here on a new peak counts
    baseline, start = memory("VmRSS"), time.perf_counter()
    command(folder / "input")
    return {"seconds": time.perf_counter() - start, "peak": memory("VmHWM") - baseline}


def command(folder: Path) -> None:
    """As typed; it ends with its code."""
    from flows.__main__ import app
    from sentemb_core.console import run

    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    source = str(folder / "corpus.jsonl")
    code = run(app, ["run", source, "--name", folder.name, *COLUMNS, *settings])
    assert code == 0, f"the run ended with {code}"


def main() -> bool:
    parser = size_options(__doc__)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        print(json.dumps(run_in(asked.run)))
        return True
    small, large = (
        peak_of(int(size * 1e9), asked.folder) for size in (asked.gigabytes / 10, asked.gigabytes)
    )
    return kept("growth of the peak in %", 100 * (large / small - 1), at_most=5)


if __name__ == "__main__":
    sys.exit(not main())
