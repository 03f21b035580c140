"""Measure ways to do the same work; compare a number with its promise, and with a goal."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

ROWS = "SENTEMB_BENCH_ROWS"
"""Variable of the environment: the file that `measured` appends to, a JSON list a line."""


class Goal(NamedTuple):
    """What is measured, beside what, and the number to reach.

    `unit` is "x" for a ratio, of which more is better; seconds and CPU-seconds are at most `bound`.
    """

    row: str
    peer: str
    bound: float
    unit: str = "x"


def _has(flag: str) -> bool:
    cpu = Path("/proc/cpuinfo")
    return cpu.is_file() and f" {flag}" in cpu.read_text()


WIDE, BFLOAT16 = _has("avx512f"), _has("avx512_bf16")

MINILM = "MiniLM, length 32"

GOALS = {
    "rerun": Goal("a rerun that computes nothing", "none", 6, "s"),
    "first stage": Goal("the first stage of a run in a new home begins", "none", 6, "s"),
    "around": Goal("1,000 documents, two rounds: outside encode, train, annotate", "none", 15, "s"),
    "help": Goal("`--help`, the slowest", "none", 0.3, "CPU-s"),
    "where": Goal("`where`", "none", 0.8, "CPU-s"),
    "status": Goal("`status` of a finished run", "none", 1, "CPU-s"),
    "annotate": Goal("annotate, 29 x 768", "networkx", 40 if WIDE else 32),
    "annotate numpy": Goal("annotate, 29 x 768", "networkx on numpy", 4 if WIDE else 2),
    "search": Goal("exact search, first 10 of 200,000 x 384", "faiss", 2 if BFLOAT16 else 1),
    "ranking": Goal("validation ranking, the same vectors", "exact search of faiss", 1),
    "encode": Goal(f"encode {MINILM}, float32", "sentence-transformers", 2.5 if WIDE else 1.15),
    "gemm": Goal(f"encode {MINILM}, float32", "its matrix products alone", 0.9),
    "train": Goal("train on pairs, float32", "loss of sentence-transformers", 1.6),
    "clusters": Goal("pairs a CPU-second, cluster batches", "our pair batches", 5),
    "tokenise": Goal(
        "vocabulary and tokens of 16,000 documents of six sentences", "none", 15, "CPU-s"
    ),
    "openvino": Goal(f"encode {MINILM}", "OpenVINO, exact lengths", 1),
    "onnx": Goal(f"encode {MINILM}", "ONNX Runtime, exact lengths", 1),
    "gpu encode": Goal("H200, bfloat16: sentences a second", "none", 90_000, "a second"),
    "gpu train": Goal("H200, bfloat16: pairs a second", "none", 12_000, "a second"),
}
"""The table of `make bench`, in its order."""


def measured(key: str, value: float) -> None:
    """Give a row of the table its number."""
    if file := os.environ.get(ROWS):
        with Path(file).open("a") as rows:
            rows.write(json.dumps([key, value]) + "\n")


def goal_table(values: Mapping[str, float]) -> list[str]:
    """Return the lines of the table of goals; a row without a value is not measured."""
    lines = ["| what | beside | measured | goal | |", "|---|---|---:|---:|---|"]
    for key, (row, peer, bound, unit) in GOALS.items():
        shown, verdict = "", "not measured"
        if (value := values.get(key)) is not None:
            met = value <= bound if unit.endswith("s") else value >= bound
            shown, verdict = f"{value:.2f} {unit}", "met" if met else "missed"
        lines.append(f"| {row} | {peer} | {shown} | {bound:,g} {unit} | {verdict} |")
    return lines


def fastest(
    ways: Mapping[str, Callable[[], T]],
    rounds: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> tuple[dict[str, float], dict[str, T]]:
    """Return the seconds of each way's fastest round, and its result.

    The ways take turns: a slow moment of the machine affects all of them.
    """
    seconds, results = dict.fromkeys(ways, math.inf), dict[str, T]()
    for _ in range(rounds):
        for name, way in ways.items():
            began = clock()
            results[name] = way()
            seconds[name] = min(seconds[name], clock() - began)
    return seconds, results


def kept(
    name: str, value: float, *, at_least: float = -math.inf, at_most: float = math.inf
) -> bool:
    """Print the number beside its promise; return whether the promise is kept."""
    promise = f"at most {at_most:g}" if math.isinf(at_least) else f"at least {at_least:g}"
    is_kept = at_least <= value <= at_most
    print(f"{name}: {value:.2f} ({promise}: {'kept' if is_kept else 'MISSED'})", flush=True)
    return is_kept
