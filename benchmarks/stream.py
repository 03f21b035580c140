"""Peak memory of a whole `python -m flows run`, at N bytes of input and at 10 N.

    python benchmarks/stream.py                    # 0.4 and 4 GB: an hour
    python benchmarks/stream.py --gigabytes 0.1    # 10 and 100 MB: some minutes

The promise is a growth of at most 5 %; the exit code is 1 above it. The run starts from a random
encoder and has two rounds; embeddings are not kept. Memory counts from the end of a first run on
1 MB, which loads all modules. Below N = 400 MB the growth reads too high: the buffers are not yet
full. Linux only, because it reads /proc.

The input is JSONL made of the shipped blog_usgov: documents of 4 to 20 real sentences, with one
word of each sentence replaced, so that no document repeats. Every 500th row is invalid.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.promises import kept

SHIPPED = Path(__file__).parents[1] / "data" / "blog_usgov.parquet"
COLUMNS = ["--id-column", "id", "--text-column", "text", "--counterpart-column", "title"]
SETTINGS = {
    "encoder.name": "static",
    "rounds.max_rounds": "2",
    "rounds.patience": "2",
    "corpus.splitter": "regex",
    "annotation.keep_embeddings": "false",
}
INVALID_EVERY = 500
INVALID_ROWS = (
    "no JSON\n",
    '{"id": "x", "title": "t", "text": "\udcff"}\n',
    '{"id": "x", "title": "t", "text": "a \\u0000 b"}\n',
    '{"id": "x", "title": "t", "text": 5}\n',
    '{"id": "x", "title": "t", "text": ""}\n',
    '{"id": "d0", "title": "t", "text": "The id of an earlier row."}\n',
)
"""Broken JSON, a wrong encoding, NUL, a number, an empty text, a repeated id: in turn."""


def peak_of(size: int, parent: Path | None) -> float:
    """Return the peak in MB of a run on `size` bytes, in a process and a home of its own."""
    with TemporaryDirectory(dir=parent, prefix="sentemb-stream-") as name:
        write_input(Path(name) / "warm", 1_000_000)
        write_input(Path(name) / "input", size)
        result = in_own_home(__file__, name)
    print(f"{size / 1e6:.0f} MB: peak {result['peak']:.0f} MB in {result['seconds']:.0f} s")
    return result["peak"]


def in_own_home(script: str, folder: str) -> Any:
    """Return what `script --run folder` prints last, in a process and a home of its own."""
    done = subprocess.run(
        [sys.executable, script, "--run", folder],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"SENTEMB_HOME": f"{folder}/home"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_in(folder: Path) -> dict[str, float]:
    """Run in this process; return the seconds, and the peak above the memory before."""
    run_pipeline(folder / "warm")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    baseline, start = memory("VmRSS"), time.perf_counter()
    run_pipeline(folder / "input")
    return {"seconds": time.perf_counter() - start, "peak": memory("VmHWM") - baseline}


def run_pipeline(folder: Path) -> None:
    from flows.__main__ import app
    from sentemb_core.console import run

    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    source = str(folder / "corpus.jsonl")
    code = run(app, ["run", source, "--name", folder.name, *COLUMNS, *settings])
    assert code == 0, f"the run ended with {code}"


def memory(field: str) -> float:
    """Return VmRSS or VmHWM of this process in MB (getrusage includes the parent's peak)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6


def write_input(folder: Path, size: int) -> None:
    """Write documents until corpus.jsonl has `size` bytes; equal sizes give equal bytes."""
    folder.mkdir()
    lines = json_lines((4, 21))
    with (folder / "corpus.jsonl").open("w", encoding="utf-8", errors="surrogateescape") as file:
        for invalid in cycle(INVALID_ROWS):
            if file.tell() >= size:
                break
            file.writelines(islice(lines, INVALID_EVERY - 1))
            file.write(invalid)


def write_documents(file: Path, documents: int) -> None:
    """Write documents of 4 to 8 sentences."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(islice(json_lines((4, 9)), documents))


def json_lines(sizes: tuple[int, int]) -> Iterator[str]:
    """Yield spans of sentences of real documents, with one word of each sentence replaced.

    `sizes` are the fewest sentences and the most, exclusive.
    """
    texts = [
        [sentence.split() for sentence in sentences]
        for sentences in pq.read_table(SHIPPED)["sentences"].to_pylist()
    ]
    words = np.array([word for text in texts for sentence in text for word in sentence])
    rng = np.random.default_rng(0)
    for number in count():
        text = texts[rng.integers(len(texts))]
        length = rng.integers(*sizes)
        first = rng.integers(max(1, len(text) - length + 1))
        span = [list(sentence) for sentence in text[first : first + length]]
        replaced = words[rng.integers(len(words), size=len(span))].tolist()
        for sentence, word in zip(span, replaced, strict=True):
            sentence[int(rng.random() * len(sentence))] = word
        sentences = [" ".join(sentence) for sentence in span]
        row = {"id": f"d{number}", "title": sentences[0], "text": "\n\n".join(sentences[1:])}
        yield json.dumps(row) + "\n"


def main() -> bool:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.0, help="10 N. Default: 4.")
    parser.add_argument("--folder", type=Path, help="For temporary files. Default: TMPDIR.")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_in(options.run)))
        return True
    sizes = (options.gigabytes / 10, options.gigabytes)
    small, large = (peak_of(int(size * 1e9), options.folder) for size in sizes)
    return kept("growth of the peak in %", 100 * (large / small - 1), at_most=5)


if __name__ == "__main__":
    sys.exit(not main())
