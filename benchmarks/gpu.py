"""MiniLM on a CUDA device: agreement with the CPU, speed against sentence-transformers, memory.

python benchmarks/gpu.py    # a minute on an H200
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "true"  # the peer tokenises whenever it reads

import numpy as np
import torch

from benchmarks.encode import peer_model, real_sentences
from benchmarks.promises import kept
from benchmarks.training import tokenised, train_peer, trained
from sentemb_core.config.run import EncoderConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder import batching
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.devices import any_shape
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.training import gradients, loop
from sentemb_core.types import Precision

Attention = Callable[[], AbstractContextManager[object]]

DEVICE = torch.device("cuda")
SENTENCES = 20_000
PEER_SENTENCES = 4_000
REPEATS = 1
STEPS = 15
BUDGETS = (4_096, 16_384)
SLACKS = (1_024, 8_192)
BATCHES = (64, 256)
DTYPES: tuple[Precision, ...] = ("float32", "bfloat16")


def main() -> bool:
    """Print the tables, the best of interleaved repeats; return whether all promises are kept."""
    if not torch.cuda.is_available():
        print("torch finds no CUDA device on this machine.")
        return False
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    encoder = start_encoder(EncoderConfig(name="minilm"), None).to(DEVICE)
    texts = list(dict.fromkeys(real_sentences(SENTENCES)))
    agrees = print_agreement(encoder, encoder.tokenise(texts[:2_000]))
    faster = print_encoding(encoder, texts)
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenised(encoder, 1_000, Path(folder))
        print_training(encoder, corpus)
        smaller = print_memory(encoder, corpus)
    return agrees and faster and smaller


def best_rates(ways: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Return the items per second of each way, after one warm-up turn."""
    best = dict.fromkeys(ways, 0.0)
    for turn in range(REPEATS + 1):
        for name, way in ways.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            done = way()
            torch.cuda.synchronize()
            if turn:
                best[name] = max(best[name], done / (time.perf_counter() - began))
    return best


def print_agreement(encoder: Encoder, sequences: Sequence[np.ndarray]) -> bool:
    """Print the cosines between vectors of the device and of the CPU in float32."""
    on_device = {dtype: encode(encoder, sequences, dtype=dtype) for dtype in DTYPES}
    on_cpu = encode(encoder.to("cpu"), sequences)
    encoder.to(DEVICE)
    for dtype, vectors in on_device.items():
        print(f"{dtype}: min cosine with the CPU {(vectors * on_cpu).sum(axis=1).min():.6f}")
    return kept(
        "float32 cosine", (on_device["float32"] * on_cpu).sum(axis=1).min(), at_least=0.99999
    )


def print_encoding(encoder: Encoder, texts: list[str]) -> bool:
    """Print sentences per second, from token ids (sentemb) and from texts (the peer).

    Returns:
        Whether the promise is kept.
    """
    peer = peer_model(DEVICE.type)
    sequences = encoder.tokenise(texts)

    def ours(budget: int, dtype: Precision, attention: Attention = any_shape) -> int:
        batching.CUDA_BUDGET, batching.any_shape = budget, attention
        return len(encode(encoder, sequences, dtype=dtype))

    def theirs(size: int, dtype: Precision) -> int:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=dtype == "bfloat16"):
            return len(peer.encode(texts[:PEER_SENTENCES], batch_size=size))

    usual = batching.CUDA_BUDGET
    ways: dict[str, Callable[[], int]] = {
        f"sentence-transformers {dtype}, batches of {size}": partial(theirs, size, dtype)
        for size in (32, 1_024)
        for dtype in DTYPES
    } | {
        f"sentemb {dtype}, {budget} tokens": partial(ours, budget, dtype)
        for budget in BUDGETS
        for dtype in DTYPES
    }
    ways["sentemb bfloat16, cuDNN's attention"] = partial(ours, usual, "bfloat16", nullcontext)
    rates = best_rates(ways)
    batching.CUDA_BUDGET, batching.any_shape = usual, any_shape
    for name, rate in rates.items():
        print(f"  encode, {name:48s}{rate:10,.0f} sentences/s", flush=True)
    best = max(rate for name, rate in rates.items() if name.startswith("sentence-transformers"))
    ratio = rates[f"sentemb bfloat16, {usual} tokens"] / best
    return kept("bfloat16 / the peer's best", ratio, at_least=2)


def print_training(encoder: Encoder, corpus: TokenCorpus) -> None:
    """Print pairs per second of neighbours, beside a loop over the peer's loss."""
    peer = peer_model(DEVICE.type)

    def ours(size: int, slack: int, dtype: Precision, attention: Attention = any_shape) -> int:
        gradients.CUDA_SLACK, loop.any_shape = slack, attention
        report, _ = trained(encoder, corpus, {"batch_size": size, "steps": STEPS, "dtype": dtype})
        return report.pairs

    def theirs(size: int, dtype: Precision) -> int:
        train_peer(peer, corpus, size, STEPS, dtype, seed=0)
        return STEPS * size

    usual = gradients.CUDA_SLACK
    for size in BATCHES:
        ways: dict[str, Callable[[], int]] = {
            f"sentence-transformers {dtype}": partial(theirs, size, dtype) for dtype in DTYPES
        } | {
            f"sentemb {dtype}, slack {slack}": partial(ours, size, slack, dtype)
            for slack in SLACKS
            for dtype in DTYPES
        }
        ways["sentemb bfloat16, cuDNN's attention"] = partial(
            ours, size, usual, "bfloat16", nullcontext
        )
        for name, rate in best_rates(ways).items():
            print(f"  train, batch {size:4d}, {name:38s}{rate:10,.0f} pairs/s", flush=True)
    gradients.CUDA_SLACK, loop.any_shape = usual, any_shape


def print_memory(encoder: Encoder, corpus: TokenCorpus) -> bool:
    """Print the peak memory of a batch, without and with the gradient cache."""
    peaks: dict[str, float] = {}
    for size, chunk in ((128, None), (4_096, None), (128, 64), (4_096, 64)):
        torch.cuda.reset_peak_memory_stats()
        settings = {"batch_size": size, "steps": 2, "dtype": "bfloat16", "chunk": chunk}
        trained(encoder, corpus, settings)
        name = f"batch {size}, " + ("plain" if chunk is None else f"chunks of {chunk}")
        peaks[name] = torch.cuda.max_memory_allocated() / 2**30
        print(f"  {name}: peak {peaks[name]:.2f} GiB")
    cached = [peak for name, peak in peaks.items() if "chunks" in name]
    return kept("gradient cache, 4,096 / 128", cached[1] / cached[0], at_most=1.3)


if __name__ == "__main__":
    sys.exit(not main())
