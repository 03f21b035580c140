"""CPU-seconds, seconds and peak memory of each stage of a run, by the number of documents.

    python -m benchmarks.growth             # the row of `make bench`
    python -m benchmarks.growth --write     # table and figure of docs/performance.md

Documents have 4 to 8 sentences of the shipped blog, with one word of each replaced
(`benchmarks/stream.py`). The run starts from a static table and has one round of few steps. A peak
is what a stage adds to the memory before it. Linux only, because it reads /proc.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.promises import measured
from benchmarks.stream import COLUMNS, in_own_home, memory, write_documents
from sentemb_core.config.run import CorpusConfig, EncoderConfig
from sentemb_core.corpus import documents as corpus
from sentemb_core.corpus.table import vocabulary_texts
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.encoder.start import start_encoder
from sentemb_core.report.drawing import HUES, MARKERS, house_style, png

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
FIGURE = PAGE.with_name("growth.png")
BEGIN, END = "<!-- growth:begin -->", "<!-- growth:end -->"
SIZES = (1_000, 4_000, 16_000, 64_000, 256_000)
READ = 16_000
"""Documents of the row `tokenise` of `make bench`."""

FAR = 1_000_000
SETTINGS = (
    "rounds.max_rounds=1",
    "training.steps=60",
    "initialiser.steps=60",
    "corpus.splitter=regex",
)
SHOWN = 1.0
"""CPU-seconds at the largest size of a stage that the table shows."""

Costs = dict[str, dict[str, float]]
"""`cpu`, `seconds` and `peak` (MB) by stage; calls of a stage are summed, and their peaks not."""


def reading_seconds(documents: int) -> float:
    """Return the CPU-seconds of learning a vocabulary and writing the token cache."""
    with TemporaryDirectory(prefix="sentemb-growth-") as name:
        folder = Path(name)
        write_documents(folder / "corpus.jsonl", documents)
        config = CorpusConfig(
            source=str(folder / "corpus.jsonl"),
            id_column="id",
            text_column="text",
            counterpart_column="title",
            splitter="regex",
        )
        for part in ("documents", "tokens"):
            (folder / part).mkdir()
        corpus.write_documents(config, folder / "documents")
        written = folder / "documents" / "documents.parquet"
        began = time.process_time()
        encoder = start_encoder(EncoderConfig(name="static"), vocabulary_texts(written))
        encoder.tokenizer.save(str(folder / "tokenizer.json"))
        report = write_tokens(
            written,
            None,
            folder / "tokenizer.json",
            encoder.max_length,
            folder / "tokens",
            add_special_tokens=encoder.add_special_tokens,
            unknown=encoder.unknown_id,
        )
        spent = time.process_time() - began
    print(f"{documents:,} documents, {report.sentences:,} sentences: {spent:.1f} CPU-s")
    return spent


def costs_of(documents: int) -> Costs:
    """Return the costs of a run, in a process and a home of its own."""
    with TemporaryDirectory(prefix="sentemb-growth-") as name:
        write_documents(Path(name) / "corpus.jsonl", documents)
        return in_own_home(__file__, name)


def run_in(folder: Path) -> Costs:
    """Run in this process, and measure each stage that computes."""
    from flows.__main__ import app
    from sentemb_core.console import run
    from sentemb_core.store.stages import Stage

    costs: Costs = {}
    compute = Stage.compute

    def measuring(self: Stage, *args: Any, **kwargs: Any) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before, began, used = memory("VmRSS"), time.perf_counter(), time.process_time()
        result = compute(self, *args, **kwargs)
        cost = costs.setdefault(self.name, {"cpu": 0.0, "seconds": 0.0, "peak": 0.0})
        cost["cpu"] += time.process_time() - used
        cost["seconds"] += time.perf_counter() - began
        cost["peak"] = max(cost["peak"], memory("VmHWM") - before)
        return result

    Stage.compute = measuring
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    source = [str(folder / "corpus.jsonl"), "--name", "growth", "--encoder", "static"]
    code = run(app, ["run", *source, *COLUMNS, *settings])
    assert code == 0, f"the run ended with {code}"
    return costs


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the slope of log cost over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(costs, 1e-3)), 1)[0])


def table(found: Mapping[int, Costs]) -> list[str]:
    """Return the lines of the table: stages whose CPU-seconds at the largest size are not few."""
    sizes, largest = list(found), max(found)
    lines = [
        f"| stage | {' | '.join(f'{size:,}' for size in sizes)} | exponent | {FAR:,} | "
        f"seconds, {largest:,} | MB, {' / '.join(f'{size:,}' for size in sizes)} |",
        "|---|" + "---:|" * (len(sizes) + 4),
    ]
    for stage, last in sorted(found[largest].items(), key=lambda item: -item[1]["cpu"]):
        if last["cpu"] < SHOWN:
            continue
        calls = [each.get(stage) for each in found.values()]
        costs = [call["cpu"] if call else 0.0 for call in calls]
        power = exponent(sizes[-2:], costs[-2:]) if calls[-2] else 1.0
        peaks = " / ".join(f"{call['peak']:.0f}" if call else "-" for call in calls)
        lines.append(
            f"| {stage} | {' | '.join(f'{cost:.1f}' for cost in costs)} | {power:.2f} | "
            f"{costs[-1] * (FAR / largest) ** power:,.0f} | {last['seconds']:.0f} | {peaks} |"
        )
    return lines


def figure(found: Mapping[int, Costs]) -> bytes:
    """Return a PNG: CPU-seconds and peak memory of the largest stages, by documents."""
    with house_style():
        from matplotlib.figure import Figure

        drawn = Figure(figsize=(9, 4), layout="constrained")
        for axes, kind, label in zip(
            drawn.subplots(1, 2), ("cpu", "peak"), ("CPU-seconds", "MB that a stage adds"),
            strict=True,
        ):  # fmt: skip
            last = found[max(found)]
            largest = sorted(last, key=lambda stage: -last[stage][kind])[: len(HUES)]
            for place, stage in enumerate(largest):
                sizes = [size for size in found if stage in found[size]]
                costs = [max(found[size][stage][kind], 0.1) for size in sizes]
                mark = MARKERS[place % len(MARKERS)]
                axes.loglog(sizes, costs, color=HUES[place], marker=mark, label=stage)
            axes.set(xlabel="documents", title=label, xticks=list(found))
            axes.set_xticklabels([f"{size:,}" for size in found])
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.minorticks_off()
            axes.legend(fontsize=7)
    return png(drawn)


def main() -> bool:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true", help="Into docs/performance.md.")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_in(options.run)))
        return True
    if not options.write:
        measured("tokenise", reading_seconds(READ))
        return True
    found: dict[int, Costs] = {}
    for size in options.sizes:
        found[size] = costs_of(size)
        print(json.dumps([size, found[size]]), flush=True)
    text = "\n".join(table(found))
    print(text)
    FIGURE.write_bytes(figure(found))
    before, rest = PAGE.read_text("utf-8").split(f"{BEGIN}\n")
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")
    return True


if __name__ == "__main__":
    sys.exit(not main())
