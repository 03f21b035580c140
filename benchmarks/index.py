"""CPU-milliseconds of a search in an index of 100,000 documents, on one thread: at most 100.

Documents are runs of twelve real sentences; their vectors and token vectors are drawn, so that
nothing is encoded but the queries. Queries are real sentences, read by MiniLM. It prints the bytes
of a document by part, and the wall time, which needs an idle machine.

python benchmarks/index.py [DOCUMENTS]    # about five minutes for 100,000
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import torch

from benchmarks.encode import real_sentences
from benchmarks.promises import kept
from sentemb_core.config.run import EncoderConfig
from sentemb_core.corpus.table import Document
from sentemb_core.encoder.dense import linear
from sentemb_core.encoder.start import start_encoder
from sentemb_core.encoder.truncation import Cut
from sentemb_core.retriever.index import Index
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.retriever.tokens import DIMENSIONS, MERGED, SCALE, TokenVectors
from sentemb_core.retriever.vectors import side_of
from sentemb_core.retriever.words import Texts

SENTENCES, TOKENS = 12, 25
"""Sentences of a document, and tokens of a sentence."""

QUERIES = 100

SPEC = RetrieverSpec(
    vectors=(Vectors(folder=""),), best_sentence=0.5, words="stems_and_letters", tokens=True
)


@dataclass(frozen=True)
class Drawn(Retriever):
    """Reads queries, and draws the vectors of documents."""

    def read_documents(
        self,
        documents: Sequence[Sequence[str]],
        progress: Callable[[int], None] | None = None,
        cut: Cut | None = None,
    ) -> Readings:
        rng = np.random.default_rng(len(documents[0][0]))
        starts = np.concatenate([[0], np.cumsum([len(each) for each in documents])])
        side = side_of(directions(rng, int(starts[-1]), self.dim), starts)
        rows = directions(rng, int(starts[-1]) * TOKENS // MERGED, DIMENSIONS) * SCALE
        bounds = starts * TOKENS // MERGED
        tokens = TokenVectors(rows.round().astype(np.int8), bounds)
        return Readings(Texts([" ".join(each) for each in documents]), {"": side}, {"": tokens})


def directions(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main(count: int = 100_000) -> bool:
    """Print the times and the sizes; return whether the promise is kept."""
    torch.set_num_threads(1)
    texts = real_sentences(200_000)
    rng = np.random.default_rng(0)
    encoder = start_encoder(EncoderConfig(name="minilm"), None)
    token_map = linear(torch.randn(DIMENSIONS, encoder.hidden_dim), torch.zeros(DIMENSIONS))
    retriever = Drawn(SPEC, {"": encoder}, token_map)
    documents = (
        Document(str(k), [texts[n] for n in rng.integers(len(texts), size=SENTENCES)], None, k)
        for k in range(count)
    )
    with TemporaryDirectory() as name:
        began = time.perf_counter()
        index = Index.build(retriever, documents, Path(name) / "index", texts=False)
        print(f"{count:,} documents, built in {time.perf_counter() - began:.0f} s")
        for part, size in index.stated.bytes_by_part.items():
            print(f"{part:12}{size:10,.0f} bytes a document")
        began = time.perf_counter()
        index = Index.open(index.folder, retriever)
        print(f"opened in {time.perf_counter() - began:.1f} s")
        queries = [texts[n] for n in rng.integers(len(texts), size=QUERIES)]
        index.search(queries[0])  # reads the files into the page cache
        logging.getLogger("sentemb_core").setLevel(logging.ERROR)  # real sentences are long queries
        spent: dict[str, float] = {}
        print(f"{'':10}{'CPU ms':>8}{'median ms':>11}")
        for by in ("hybrid", "dense", "words"):
            began = time.process_time()
            times = [timed(partial(index.search, query, by=by)) for query in queries]
            spent[by] = (time.process_time() - began) * 1000 / QUERIES
            print(f"{by:10}{spent[by]:8.0f}{1000 * np.median(times):11.0f}")
        began = time.process_time()
        index.search_all(queries)
        whole = (time.process_time() - began) * 1000 / QUERIES
        print(f"{QUERIES} queries at once: {whole:.0f} CPU ms each")
    return kept("CPU-milliseconds of a search", spent["hybrid"], at_most=100)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
