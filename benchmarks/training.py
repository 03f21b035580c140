"""Training MiniLM on blog documents: pairs per CPU-second, memory of large batches.

Run with `python benchmarks/training.py` (`--peers`, `--rates` or `--memory` for one part alone).
Pair batches are compared with a plain loop over the loss of sentence-transformers. Cluster batches
and pair batches train on the same annotation with the same settings. All take turns in one process
on one thread. The gradient cache is measured by the peak memory of one process for each batch size.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # threads that spin while they wait cost CPU-seconds
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from benchmarks.encode import peer_model
from benchmarks.promises import kept, measured
from benchmarks.stream import memory
from sentemb_core.annotation.pair_arrays import cluster_pairs
from sentemb_core.annotation.pruning import clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.config.run import CorpusConfig, EncoderConfig, TrainingConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import write_validation_pool
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of, train
from sentemb_core.training.state import TrainingReport
from sentemb_core.types import Json

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SENTEMB_DATA", ROOT / "data")) / "blog_usgov.parquet"
RATES = {"pair": 64, "cluster": 256}
STEPS = 3
ONE_THREAD: Json = {"threads": 1, "dtype": "bfloat16"}
CHUNK = 64

PEER_STEPS = 8
"""Lengths differ from step to step, so that no way gains from a known shape."""


def tokenised(encoder: Encoder, documents: int, folder: Path) -> TokenCorpus:
    """Return a sample of the blog corpus as a token cache."""
    source = CorpusConfig(
        source=str(DATA),
        sentences_column="sentences",
        counterpart_column="title",
        min_sentences=5,
        max_sentences=40,
        max_documents=documents,
    )
    for name in ("documents", "benchmark", "tokens"):
        (folder / name).mkdir()
    write_documents(source, folder / "documents")
    documents_file = folder / "documents" / "documents.parquet"
    write_validation_pool(documents_file, ValidationConfig(), folder / "benchmark")
    encoder.tokenizer.save(str(folder / "tokenizer.json"))
    write_tokens(
        documents_file,
        folder / "benchmark",
        folder / "tokenizer.json",
        encoder.max_length,
        folder / "tokens",
        add_special_tokens=encoder.add_special_tokens,
        unknown=encoder.unknown_id,
    )
    return TokenCorpus.open(folder / "tokens")


def annotation_of(encoder: Encoder, corpus: TokenCorpus) -> Annotation:
    """Cluster by the encoder itself, with one neighbour per sentence."""
    vectors = encode(encoder, corpus.tokens(np.arange(len(corpus))), dtype="bfloat16")
    edges = prune_to_top_k(neighbours(vectors, corpus.offsets, 8), 1)
    labels = clusters(edges, corpus.offsets)
    chunks = list(cluster_pairs(labels, corpus.offsets))
    i, j = (np.concatenate([chunk[side] for chunk in chunks]) for side in (0, 1))
    return Annotation(i, j, labels)


def trained(
    encoder: Encoder,
    corpus: TokenCorpus,
    settings: Json,
    annotation: Annotation | None = None,
) -> tuple[TrainingReport, float]:
    """Return the report of a training and its CPU-seconds; keep no checkpoints.

    It trains on neighbours unless the settings name another method.
    """
    config = TrainingConfig.model_validate({"method": "conpono"} | settings)
    method = method_for(config.method, encoder)
    sampler = sampler_for(config, method, corpus, annotation)
    with tempfile.TemporaryDirectory() as work:
        began = time.process_time()
        learner = learner_of(method, encoder, config.seed)
        report = train(learner, method, sampler, config, Path(work))
        return report, time.process_time() - began


def print_peers(rounds: int) -> None:
    """Print the speed of pair batches beside sentence-transformers, the best of several rounds."""
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    peer = peer_model("cpu")
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 600, Path(folder))
        ways: dict[str, Callable[[int], float]] = {
            "sentence-transformers float32": partial(peer_seconds, peer, corpus, "float32"),
            "sentence-transformers bfloat16": partial(peer_seconds, peer, corpus, "bfloat16"),
            "sentemb float32": partial(neighbour_seconds, encoder, corpus, "float32"),
            "sentemb bfloat16": partial(neighbour_seconds, encoder, corpus, "bfloat16"),
        }
        best = dict.fromkeys(ways, float("inf"))
        for turn in range(rounds):
            for name, seconds in ways.items():
                best[name] = min(best[name], seconds(turn))
    print(f"batches of {RATES['pair']} neighbours, {PEER_STEPS} steps per round")
    first = next(iter(best.values()))
    measured("train", first / best["sentemb float32"])
    for name, spent in best.items():
        rate = PEER_STEPS * RATES["pair"] / spent
        print(f"  {name:32s}{rate:6.1f} pairs/CPU-s, {first / spent:.2f} times the first")


def peer_seconds(peer: SentenceTransformer, corpus: TokenCorpus, dtype: str, seed: int) -> float:
    """Return the CPU-seconds of a training by sentence-transformers."""
    began = time.process_time()
    train_peer(peer, corpus, RATES["pair"], PEER_STEPS, dtype, seed)
    return time.process_time() - began


def train_peer(
    peer: SentenceTransformer, corpus: TokenCorpus, size: int, steps: int, dtype: str, seed: int
) -> None:
    """Train with a plain loop over the loss of sentence-transformers, from texts."""
    device = peer.device.type
    loss = MultipleNegativesRankingLoss(peer)
    optimiser = torch.optim.AdamW(peer.parameters(), lr=2e-5, fused=device == "cuda")
    rng = np.random.default_rng(seed)
    peer.train()
    for _ in range(steps):
        rows = rng.choice(len(corpus) - 1, size, replace=False)
        read = [
            {name: tensor.to(device) for name, tensor in peer.preprocess(texts).items()
             if isinstance(tensor, torch.Tensor)}
            for texts in (corpus.texts(rows), corpus.texts(rows + 1))
        ]  # fmt: skip
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            value = loss(read, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()


def neighbour_seconds(encoder: Encoder, corpus: TokenCorpus, dtype: str, seed: int) -> float:
    """Return the CPU-seconds of sentemb on neighbours."""
    settings = {"batch_size": RATES["pair"], "steps": PEER_STEPS, "dtype": dtype, "seed": seed}
    _, seconds = trained(encoder, corpus, settings | {"threads": 1})
    return seconds


def print_rates(rounds: int) -> bool:
    """Print the speed of both kinds of batches; return whether the promise is kept."""
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 150, Path(folder))
        annotation = annotation_of(encoder, corpus)
        print(
            f"{len(corpus)} sentences, {len(annotation.i)} pairs, {STEPS} steps per round, bfloat16"
        )
        best: dict[str, float] = {}
        for turn in range(rounds):
            for kind, size in RATES.items():
                settings = {
                    "method": {"name": "infocse_idc", "batches": kind},
                    "batch_size": size,
                    "steps": STEPS,
                    "seed": turn,
                }
                report, seconds = trained(encoder, corpus, settings | ONE_THREAD, annotation)
                rate = report.pairs / seconds
                best[kind] = max(best.get(kind, 0.0), rate)
                print(
                    f"  {kind:8s}{report.pairs:6d} pairs of {report.sentences:5d} encoded "
                    f"sentences in {seconds:5.1f} CPU-s: {rate:6.1f} pairs/CPU-s, "
                    f"{report.sentences / seconds:5.1f} sentences/CPU-s"
                )
    ratio = best["cluster"] / best["pair"]
    measured("clusters", ratio)
    return kept("cluster / pair batches", ratio, at_least=3)


def print_memory() -> bool:
    """Print the peak memory at each batch size; return whether the promise is kept."""
    peaks = {size: peak_of(size) for size in (128, 3200)}
    for size, peak in peaks.items():
        print(f"gradient cache, chunk {CHUNK}, batch {size:5d}: peak {peak:6.0f} MB")
    return kept("3200 / 128", peaks[3200] / peaks[128], at_most=1.3)


def peak_of(batch_size: int) -> float:
    """Return the peak resident MB of a process that trains with this batch size."""
    command = [sys.executable, __file__, "--peak-of", str(batch_size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(batch_size: int) -> None:
    """Train two steps on neighbours and print the peak resident MB of this process."""
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 150, Path(folder))
        trained(
            encoder, corpus, {"batch_size": batch_size, "chunk": CHUNK, "steps": 2} | ONE_THREAD
        )
    print(memory("VmHWM"))  # ru_maxrss begins with the peak of the parent


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peak_of is not None:
        print_peak(asked.peak_of)
        return True
    everything = not (asked.peers or asked.rates or asked.memory)
    if asked.peers or everything:
        print_peers(asked.rounds)
    rates = print_rates(asked.rounds) if asked.rates or everything else True
    memory = print_memory() if asked.memory or everything else True
    return rates and memory


if __name__ == "__main__":
    sys.exit(not main())
