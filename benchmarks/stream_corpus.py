"""Peak memory and speed of the corpus stages for N bytes of JSONL and for ten times as many.

    python benchmarks/stream_corpus.py --gigabytes 4

Every size runs in a process of its own: memory counts from the moment all imports are done.
Growth = (peak above that baseline at N) / (the same at N / 10) - 1; the promise is at most 5 %.
Documents are random, about 1.3 kB and 12 sentences each; splitter regex. Needs twice the disk.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from sentemb_core.configs import CorpusConfig, ValidationConfig
from sentemb_core.corpus.benchmark import write_benchmark
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.tokens import write_tokens

MAX_LENGTH = 32


def documents(folder: Path) -> object:
    config = CorpusConfig(
        source=str(folder / "corpus.jsonl"), id_column="id", counterpart_column="title",
        splitter="regex",
    )  # fmt: skip
    return write_documents(config, made(folder / "documents")).summary()


def benchmark(folder: Path) -> object:
    config = ValidationConfig()
    return write_benchmark(
        folder / "documents" / "documents.parquet", config, made(folder / "benchmark")
    ).summary()


def tokens(folder: Path) -> object:
    return write_tokens(
        folder / "documents" / "documents.parquet", folder / "benchmark",
        folder / "tokenizer.json", MAX_LENGTH, made(folder / "tokens"), add_special_tokens=False,
    ).summary()  # fmt: skip


STAGES: list[Callable[[Path], object]] = [documents, benchmark, tokens]
"""Run in this order, each on what the earlier ones left in the folder."""


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def measure(folder: Path) -> dict[str, object]:
    """Run all stages here; seconds of each, and peak memory above the baseline after them."""
    size = (folder / "corpus.jsonl").stat().st_size
    baseline = resident()
    stages = {}
    for stage in STAGES:
        start = time.perf_counter()
        said = stage(folder)
        seconds = time.perf_counter() - start
        stages[stage.__name__] = {
            "seconds": round(seconds, 2),
            "megabytes_per_second": round(size / 1e6 / seconds, 1),
            "peak_above_baseline_mb": round((peak() - baseline) / 1e6, 1),
            "said": said,
        }
    return {"input_mb": round(size / 1e6), "baseline_mb": round(baseline / 1e6), "stages": stages}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_corpus(path: Path, size: int, sentences: list[str]) -> None:
    """Random documents until the file has `size` bytes."""
    draw = random.Random(0)
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            lines = []
            for _ in range(1_000):
                picked = draw.choices(sentences, k=13)
                row = {"id": f"d{number}", "title": picked[0], "text": " ".join(picked[1:])}
                lines.append(json.dumps(row) + "\n")
                number += 1
            file.writelines(lines)


def random_sentences(count: int) -> list[str]:
    draw = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    picked = (draw.choices(words, weights, k=draw.randint(6, 30)) for _ in range(count))
    return [" ".join(sentence).capitalize() + "." for sentence in picked]


def write_tokenizer(path: Path, sentences: list[str]) -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=8_000, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.save(str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0, help="the larger of the two sizes")
    parser.add_argument("--folder", type=Path, help="where the temporary folder goes")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        json.dump(measure(arguments.measure), sys.stdout)
        return
    peaks = []
    sentences = random_sentences(50_000)
    for size in (arguments.gigabytes / 10, arguments.gigabytes):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            folder = Path(name)
            write_corpus(folder / "corpus.jsonl", int(size * 1e9), sentences)
            write_tokenizer(folder / "tokenizer.json", sentences)
            command = [sys.executable, __file__, "--measure", name]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        print(json.dumps(found, indent=1))
        peaks.append(max(s["peak_above_baseline_mb"] for s in found["stages"].values()))
    growth = peaks[1] / peaks[0] - 1
    print(f"peak above baseline {peaks[0]} MB -> {peaks[1]} MB: {growth:+.1%} (at most +5 %)")


if __name__ == "__main__":
    main()
