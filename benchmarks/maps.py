"""How far to whiten: vectors behind maps of several powers, on every corpus and on STS sets.

    python -m benchmarks.maps --results FOLDER --write

A power of 0 takes the mean away alone, 1 is BERT-whitening. Vectors are pooled once and lie in the
folder, beside those of `benchmarks.annotation_study`.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from jaxtyping import Float32, Float64
from scipy.stats import spearmanr

from benchmarks.annotation_study import (
    CORPORA,
    DEPTH,
    Budget,
    Ground,
    compared,
    ground_of,
    hits,
    initialised,
    precision,
    source,
)
from benchmarks.main_job import RESULTS
from flows.method_table import STS
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.batching import pooled_vectors
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.retrieval import rank_benchmark, vector_scorers
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.evaluation.vectors import benchmark_vectors
from sentemb_core.postprocess.whitening import SOFT, fitted_whitening
from tasks.tables.markdown import across, markdown_table, write_between_marks

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEED = 42
GENERAL = 20_000
"""Sentences of no domain that the maps of the STS sets are fitted on."""

Vectors = Float32[np.ndarray, "n dim"]


def pooled(encoder: Encoder, texts: list[str]) -> Vectors:
    return pooled_vectors(encoder, encoder.tokenise(texts), dtype=precision(encoder))


def vectors_of_ground(ground: Ground) -> tuple[Vectors, Vectors]:
    """Of all sentences, and of all counterparts: pooled, not normalised."""
    file = ground.folder / f"pooled-{SEED}.npz"
    if not file.exists():
        encoder = initialised(ground, SEED)
        rows = ground.corpus.tokens(np.arange(len(ground.corpus)))
        sentences = pooled_vectors(encoder, rows, dtype=precision(encoder))
        counterparts = [text or "" for text in ground.benchmark.candidate_text]
        np.savez(file, sentences=sentences, counterparts=pooled(encoder, counterparts))
    stored = np.load(file)
    return stored["sentences"], stored["counterparts"]


def behind(fitted_on: Vectors, power: float | None, *found: Vectors) -> list[Vectors]:
    """The vectors behind the map of a power, of length 1; none: as they are."""
    if power is None:
        return [directions(one) for one in found]
    fitted = fitted_whitening(fitted_on, power=power)
    return [directions(fitted.transformed(one).astype(np.float32)) for one in found]


def hits_behind(ground: Ground, power: float | None) -> Float64[np.ndarray, "1 counterparts"]:
    """Hit among the first k, the mean of both directions, counterpart by counterpart."""
    sentences, counterparts = vectors_of_ground(ground)
    sentences, counterparts = behind(sentences, power, sentences, counterparts)
    both = benchmark_vectors(
        ground.corpus,
        ground.benchmark,
        lambda rows: sentences[rows],
        lambda texts: counterparts,
        "cosine",
    )
    ranks = rank_benchmark(ground.benchmark, vector_scorers(*both), "test")
    told = {
        "there": ranks.document_to_counterpart.rank.tolist(),
        "back": ranks.counterpart_to_document.best.tolist(),
    }
    return hits([told], DEPTH.get(ground.name, 5), ground.counterpart)


def line_of(ground: Ground) -> list[str]:
    """The corpus's row: no map, the powers, and what the soft one has over either end."""
    found = {power: hits_behind(ground, power) for power in (None, *POWERS)}
    means = [across([float(one.mean())]) for one in found.values()]
    over = [compared(found[SOFT], found[other])[0] for other in (None, 1.0)]
    return [f"{ground.name}, R@{DEPTH.get(ground.name, 5)}", *means, *over]


def sts_lines() -> list[list[str]]:
    """Spearman's correlation of MiniLM's cosines behind maps fitted on sentences of no domain."""
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    plain = read_texts("plain_sentences")[:GENERAL]
    general = pooled(encoder, plain)
    told: list[list[str]] = []
    for label, file in STS.items():
        pairs = read_sts(Path(source(file)))
        first, second = pooled(encoder, pairs.first), pooled(encoder, pairs.second)
        numbers: list[str] = []
        for power in (None, *POWERS):
            one, other = behind(general, power, first, second)
            found = spearmanr((one * other).sum(axis=1), pairs.gold).statistic
            numbers.append(across([float(found)]))
        told.append([f"{label}, Spearman", *numbers, "", ""])
    return told


def read_texts(name: str) -> list[str]:
    return pq.read_table(source(name), columns=["text"]).column("text").to_pylist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="Folder of tokens and vectors.")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--encoder", choices=("minilm", "static"), default="minilm")
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    powers = ["centred" if power == 0 else f"{power:g}" for power in POWERS]
    head = [asked.encoder, "as it is", *powers, f"{SOFT:g} less as it is (95 %)",
            f"{SOFT:g} less 1 (95 %)"]  # fmt: skip
    lines: list[list[str]] = []
    for name in asked.corpora:
        folder = asked.results / f"{name}-{asked.encoder}-{asked.documents}"
        budget = Budget(rounds=1, long=False)
        lines.append(line_of(ground_of(name, asked.encoder, asked.documents, folder, budget)))
        print(" | ".join(lines[-1]), flush=True)
    lines += sts_lines() if asked.encoder == "minilm" else []
    made = markdown_table(head, lines, range(1, 2 + len(POWERS)))
    print(made)
    if asked.write:
        write_between_marks(RESULTS, f"maps {asked.encoder}", made)


if __name__ == "__main__":
    main()
