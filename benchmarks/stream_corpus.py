"""Peak memory of every stage from documents to the report, at N bytes of input and at 10 N.

    python benchmarks/stream_corpus.py                    # 0.4 and 4 GB: an hour, 30 GB of disk
    python benchmarks/stream_corpus.py --gigabytes 0.1    # 10 and 100 MB: a look in four minutes

Memory counts from the moment the imports of a stage are done and includes the pages of files it
maps; growth = (peak above that baseline at 10 N) / (the same at N) - 1. The promise is at most 5 %
once N fills the buffers: a shard of the token cache takes about 9 MB of input, the allocators need
some tens of shards to settle, and training reads 16 of them at a time, so that growth reads too
high below N = 400 MB.
Every stage runs in a process of its own, on two threads; Linux only, since it reads /proc.

The input is JSONL made of the shipped blog_usgov: documents of 4 to 20 real sentences, one word of
each replaced by another of the corpus, so that no document repeats; every 500th row is a bad one.
Splitter regex, a static encoder of 128 dimensions from random weights.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

from sentemb_core.annotation.clusters import Clusters, write_clusters
from sentemb_core.annotation.drift import pair_drift
from sentemb_core.annotation.embeddings import Embeddings, write_embeddings
from sentemb_core.annotation.graph import write_edges, write_graph, write_graph_fused
from sentemb_core.annotation.kmeans import write_kmeans_clusters
from sentemb_core.annotation.pairs import Pairs, write_pairs
from sentemb_core.annotation.stored import StoredAnnotation
from sentemb_core.config.run import (
    AnnotationConfig,
    CorpusConfig,
    EncoderConfig,
    TrainingConfig,
    ValidationConfig,
)
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.table import vocabulary_texts
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.encoder.card import CardFacts, model_card
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.evaluation.bm25_scores import bm25_scorers
from sentemb_core.evaluation.encoder import encoder_scorers
from sentemb_core.evaluation.random_encoder import random_scorers
from sentemb_core.evaluation.rounds import diagnostics, write_diagnostics
from sentemb_core.evaluation.scores import write_scores
from sentemb_core.evaluation.texts import benchmark_texts
from sentemb_core.methods.catalogue import method_for
from sentemb_core.report.collect import report_of
from sentemb_core.report.data import RunReport
from sentemb_core.report.folders import RoundFolders, RunFolders
from sentemb_core.report.write import write_report
from sentemb_core.training.batches import corpus_sampler
from sentemb_core.training.loop import learner_of, train
from sentemb_core.training.state import StepLog

SHIPPED = Path(__file__).parents[1] / "data" / "blog_usgov.parquet"
DIM = 128
ENVIRONMENT = {
    **{f"{library}_NUM_THREADS": "2" for library in ("OMP", "MKL", "OPENBLAS")},
    "TOKENIZERS_PARALLELISM": "false",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Two threads; the rest as flows/environment.py sets it."""
SETTINGS = AnnotationConfig()
STEPS = 300
LATER = (10_000, 20_000)
"""Steps in later parts of the corpus, or epochs of a small one."""
BAD = 500
"""A row in so many is bad."""
BAD_ROWS = (
    "no JSON\n",
    '{"id": "x", "title": "t", "text": "\udcff"}\n',
    '{"id": "x", "title": "t", "text": "a \\u0000 b"}\n',
    '{"id": "x", "title": "t", "text": 5}\n',
    '{"id": "x", "title": "t", "text": ""}\n',
    '{"id": "d0", "title": "t", "text": "The id of an earlier row."}\n',
)
"""Broken, of another encoding, with NUL, not text, empty, a repeated id: in turn."""


def read_corpus(folder: Path, out: Path) -> None:
    source = str(folder / "input" / "corpus.jsonl")
    columns = {"id_column": "id", "counterpart_column": "title"}
    write_documents(CorpusConfig(source=source, splitter="regex", **columns), out)


def draw_benchmark(folder: Path, out: Path) -> None:
    write_validation_pool(documents(folder), ValidationConfig(), out)


def start_static(folder: Path, out: Path) -> None:
    """The vocabulary is learnt from 2 million sentences: memory holds their distinct words."""
    encoder = start_encoder(EncoderConfig(dim=DIM), vocabulary_texts(documents(folder)))
    save_encoder(encoder, out, model_card(CardFacts(name="static", base="static")))


def tokenise(folder: Path, out: Path) -> None:
    encoder = load_encoder(folder / "start_static")
    write_tokens(
        documents(folder), folder / "draw_benchmark", folder / "start_static" / "tokenizer.json",
        encoder.max_length, out, add_special_tokens=encoder.add_special_tokens,
        unknown=encoder.unknown_id,
    )  # fmt: skip


def encode_sentences(folder: Path, out: Path) -> None:
    encoder = load_encoder(folder / "start_static")
    write_embeddings(encoder, corpus(folder), out, SETTINGS.storage, SETTINGS.dtype)


def build_graph(folder: Path, out: Path) -> None:
    vectors = Embeddings(folder / "encode_sentences")
    write_graph(corpus(folder), vectors, SETTINGS.graph_degree, out)


def encode_and_build_graph(folder: Path, out: Path) -> None:
    """Both in one: what `keep_embeddings = false` does."""
    write_graph_fused(
        load_encoder(folder / "start_static"), corpus(folder), SETTINGS.graph_degree,
        SETTINGS.storage, SETTINGS.dtype, out,
    )  # fmt: skip


def prune_graph(folder: Path, out: Path) -> None:
    write_edges(folder / "encode_and_build_graph", SETTINGS.top_k, SETTINGS.mutual, out)


def cluster_sentences(folder: Path, out: Path) -> None:
    write_clusters(corpus(folder), folder / "prune_graph", out)


def export_pairs(folder: Path, out: Path) -> None:
    write_pairs(corpus(folder), folder / "cluster_sentences", SETTINGS.max_partners, 42, out)


def cluster_by_kmeans(folder: Path, out: Path) -> None:
    vectors = Embeddings(folder / "encode_sentences")
    write_kmeans_clusters(corpus(folder), vectors, SETTINGS.n_clusters, "cosine", 42, out)


def train_on_pairs(folder: Path, out: Path) -> None:
    trained(folder, out, "pair")


def train_on_clusters(folder: Path, out: Path) -> None:
    trained(folder, out, "cluster")


def trained(folder: Path, out: Path, batches: str) -> None:
    """The next encoder; after it, parts of the corpus that so few steps do not come to."""
    encoder, tokens = load_encoder(folder / "start_static"), corpus(folder)
    config = TrainingConfig.model_validate({
        "method": {"name": "infocse_idc", "batches": batches},
        "steps": STEPS, "batch_size": 256, "learning_rate": 0.02,
    })  # fmt: skip
    found = StoredAnnotation(
        tokens,
        Clusters.open(folder / "cluster_sentences"),
        Pairs.open(folder / "export_pairs"),
    )
    method, steps = method_for(config.method, encoder), StepLog()
    learner = learner_of(method, encoder, config.seed)
    sampler = corpus_sampler(config, method, tokens, found)
    train(learner, method, sampler, config, out / "work", steps=steps)
    steps.write(out)
    for step in LATER:
        sampler.batch(step)
    save_encoder(encoder, out, model_card(CardFacts(name="static", base="static")))


def validate_encoder(folder: Path, out: Path) -> None:
    pool = ValidationPool.open(folder / "draw_benchmark")
    scorers = encoder_scorers(load_encoder(folder / "train_on_pairs"), corpus(folder), pool)
    write_scores(pool, scorers, out)


def fixed_rows(folder: Path, out: Path) -> None:
    """BM25 and the random encoder."""
    pool = ValidationPool.open(folder / "draw_benchmark")
    texts = benchmark_texts(folder / "read_corpus", pool)
    for name, scorers in (
        ("bm25", bm25_scorers(*texts)), ("random", random_scorers(corpus(folder), pool, 42)),
    ):  # fmt: skip
        (out / name).mkdir()
        write_scores(pool, scorers, out / name)


def diagnose_round(folder: Path, out: Path) -> None:
    """With the same vectors and clusters before and after: only memory is looked at."""
    clusters, vectors = (
        Clusters.open(folder / "cluster_sentences"),
        Embeddings(folder / "encode_sentences"),
    )
    pairs = Pairs.open(folder / "export_pairs")
    again = (clusters, pairs)
    found = diagnostics(corpus(folder), pairs, clusters, again, vectors, vectors, 42)
    pair_drift(load_encoder(folder / "start_static"), corpus(folder), clusters, SETTINGS)
    write_diagnostics(found, out)


def write_page(folder: Path, out: Path) -> None:
    """The report, with every panel."""
    start = RoundFolders(
        "start", "start", folder / "start_static", folder / "validate_encoder",
        folder / "encode_sentences",
    )  # fmt: skip
    learnt = RoundFolders(
        "round 1", "round", folder / "train_on_pairs", folder / "validate_encoder",
        folder / "encode_sentences", folder / "train_on_pairs", folder / "cluster_sentences",
        folder / "export_pairs", folder / "diagnose_round",
    )  # fmt: skip
    run = RunFolders(
        documents=folder / "read_corpus",
        benchmark=folder / "draw_benchmark",
        sentences=folder / "tokenise",
        rounds=[start, learnt],
        fixed={"BM25": folder / "fixed_rows" / "bm25"},
        best=1,
        annotation=SETTINGS,
    )
    write_report(report_of(run, RunReport(title="stream", verdict="", command="")), out)


def documents(folder: Path) -> Path:
    return folder / "read_corpus" / "documents.parquet"


def corpus(folder: Path) -> TokenCorpus:
    return TokenCorpus.open(folder / "tokenise")


STAGES: dict[str, Callable[[Path, Path], None]] = {
    stage.__name__: stage
    for stage in (
        read_corpus, draw_benchmark, start_static, tokenise, encode_sentences, build_graph,
        encode_and_build_graph, prune_graph, cluster_sentences, export_pairs, cluster_by_kmeans,
        train_on_pairs, train_on_clusters, validate_encoder, fixed_rows, diagnose_round, write_page,
    )
}  # fmt: skip
"""In their order; each reads what earlier ones left in the folder and writes into a new one."""

NOT_READ_AFTER = {
    "read_corpus": ["input"],
    "build_graph": ["build_graph"],
    "prune_graph": ["encode_and_build_graph"],
}
"""Folders that go when a stage is done: the disk would not hold them all."""

Found = dict[str, dict[str, float]]  # stage -> its seconds, and its peak in MB


def measure(stage: str, folder: Path) -> dict[str, float]:
    """Run one stage in this process: its seconds, and its peak above what the imports took."""
    out = folder / stage
    out.mkdir()
    Path("/proc/self/clear_refs").write_text("5")  # from here on a new peak counts
    baseline, start = memory("VmRSS"), time.perf_counter()
    STAGES[stage](folder, out)
    return {"seconds": time.perf_counter() - start, "peak": memory("VmHWM") - baseline}


def memory(field: str) -> float:
    """VmRSS or VmHWM of this process in MB. The parent's peak does not enter, as in getrusage."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6


def measured(size: float, parent: Path | None) -> Found:
    """Every stage on `size` bytes of input, each in a fresh process."""
    found: Found = {}
    with TemporaryDirectory(dir=parent, prefix="sentemb-stream-") as name:
        folder = Path(name)
        write_input(folder / "input", int(size))
        for stage in STAGES:
            command = [sys.executable, __file__, "--stage", stage, "--folder", name]
            run = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, env=os.environ | ENVIRONMENT
            )
            found[stage] = json.loads(run.stdout)
            print(f"{size / 1e6:.0f} MB, {stage}: {found[stage]}", file=sys.stderr)
            for done in NOT_READ_AFTER.get(stage, []):
                shutil.rmtree(folder / done)
    return found


def write_input(folder: Path, size: int) -> None:
    """Documents until corpus.jsonl has `size` bytes; equal sizes give equal bytes."""
    folder.mkdir()
    texts = [
        [sentence.split() for sentence in sentences]
        for sentences in pq.read_table(SHIPPED)["sentences"].to_pylist()
    ]
    words = np.array([word for text in texts for sentence in text for word in sentence])
    draw = np.random.default_rng(0)
    number = 0
    with (folder / "corpus.jsonl").open("w", encoding="utf-8", errors="surrogateescape") as file:
        while file.tell() < size:
            file.writelines(line(number + k, texts, words, draw) for k in range(BAD - 1))
            file.write(BAD_ROWS[number // BAD % len(BAD_ROWS)])
            number += BAD


def line(
    number: int, texts: list[list[list[str]]], words: np.ndarray, draw: np.random.Generator
) -> str:
    """A line of JSON: a run of sentences of a real document, one word of each replaced."""
    text = texts[draw.integers(len(texts))]
    length = draw.integers(4, 21)
    first = draw.integers(max(1, len(text) - length + 1))
    run = [list(sentence) for sentence in text[first : first + length]]
    replaced = words[draw.integers(len(words), size=len(run))].tolist()
    for sentence, word in zip(run, replaced, strict=True):
        sentence[int(draw.random() * len(sentence))] = word
    sentences = [" ".join(sentence) for sentence in run]
    row = {"id": f"d{number}", "title": sentences[0], "text": "\n\n".join(sentences[1:])}
    return json.dumps(row) + "\n"


def table(small: Found, large: Found) -> str:
    rows = [f"{'stage':24} {'MB at N':>8} {'at 10 N':>8} {'growth':>8} {'seconds at 10 N':>16}"]
    for stage in STAGES:
        peaks = row(stage, small[stage]["peak"], large[stage]["peak"])
        rows.append(f"{peaks} {large[stage]['seconds']:16.0f}")
    low, high = (max(found[stage]["peak"] for stage in STAGES) for found in (small, large))
    return "\n".join([*rows, row("highest of all", low, high)])


def row(name: str, low: float, high: float) -> str:
    return f"{name:24} {low:8.1f} {high:8.1f} {high / low - 1:+8.1%}"


def size_options(about: str | None) -> argparse.ArgumentParser:
    """How much input, and where it goes."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.0, help="10 N (default 4)")
    parser.add_argument("--folder", type=Path, help="where temporary files go (default TMPDIR)")
    return parser


def main() -> None:
    parser = size_options(__doc__)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        json.dump(measure(arguments.stage, arguments.folder), sys.stdout)
        return
    small, large = (measured(size * 1e9, arguments.folder)
                    for size in (arguments.gigabytes / 10, arguments.gigabytes))  # fmt: skip
    print(table(small, large))


if __name__ == "__main__":
    main()
