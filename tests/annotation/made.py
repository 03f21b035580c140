"""Corpora, vectors and annotations in memory and on disk."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sentemb_core.annotation.clusters import write_clusters
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.graph import write_edges, write_graph
from sentemb_core.annotation.pairs import Pairs, read_report, write_pairs
from sentemb_core.annotation.pruning import Edges
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.tokenise import write_tokens
from sentemb_core.corpus.tokens import Shard, TokenCorpus
from sentemb_core.documents import spans_in
from tests import tiny

LENGTHS = [3, 1, 6, 4, 2, 9, 5]


@dataclass
class Corpus(TokenCorpus):
    """Documents of these many sentences, cut into shards before the documents `cuts`."""

    counts: list[int] = field(default_factory=lambda: LENGTHS)
    cuts: tuple[int, ...] = (3, 5)
    held: tuple[int, ...] = ()
    sequences: list[np.ndarray] | None = None

    def __post_init__(self) -> None:
        self.sequences = self.sequences or tiny.corpus(self.counts).sentences
        self.offsets = np.cumsum([0, *self.counts])
        self.held_out = np.isin(np.arange(len(self.counts)), self.held)
        bounds = [0, *self.cuts, len(self.counts)]
        self.shards = [
            Shard(k, slice(a, b), slice(int(self.offsets[a]), int(self.offsets[b])))
            for k, (a, b) in enumerate(pairwise(bounds))
        ]

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def shard_offsets(self, k: int) -> np.ndarray:
        documents = self.shards[k].documents
        return self.offsets[documents.start : documents.stop + 1]

    def spans_of(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return spans_in(self.offsets, sentences)

    def place(self, sentence: int) -> tuple[str, int]:
        first = int(self.spans_of(np.array([sentence]))[0][0])
        return f"d{self.offsets.tolist().index(first)}", sentence - first

    def shard_tokens(self, k: int) -> list[np.ndarray]:
        return self.sequences[self.shards[k].sentences]

    def text_hashes_of(self, sentences: np.ndarray) -> np.ndarray:
        return np.random.default_rng(0).integers(2**62, size=len(self))[sentences]

    def texts(self, sentences: np.ndarray) -> list[str]:
        return [f"same {k % 2}" for k in sentences.tolist()]


class Drawn(Embeddings):
    """Random vectors of a corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        rng = np.random.default_rng(0)
        self.vectors = rng.standard_normal((len(corpus), 6)).astype(np.float32)

    def shard(self, k: int) -> np.ndarray:
        return self.vectors[self.corpus.shards[k].sentences]

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self.vectors[indices]


def folders(root: Path, *names: str) -> list[Path]:
    paths = [root / name for name in names]
    for path in paths:
        path.mkdir(parents=True)
    return paths


def token_corpus(
    folder: Path, texts: list[list[str]], *, shard_sentences: int | None = None
) -> TokenCorpus:
    """The token cache of these documents for `tiny.static`, in shards of so many sentences."""
    (tokens,) = folders(folder, "tokens")
    rows = [Document(f"d{k}", sentences, None, k) for k, sentences in enumerate(texts)]
    write_rows(folder / "documents.parquet", rows)
    tiny.static().tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.MonkeyPatch.context() as patch:
        if shard_sentences:
            patch.setattr("sentemb_core.corpus.tokenise.SHARD_SENTENCES", shard_sentences)
            patch.setattr("sentemb_core.corpus.table.READ_ROWS", 1)
        write_tokens(
            folder / "documents.parquet", None, folder / "tokenizer.json", 12, tokens,
            add_special_tokens=False, unknown=tiny.static().unknown_id,
        )  # fmt: skip
    return TokenCorpus.open(tokens)


def annotated(corpus: Corpus, root: Path, *, top_k: int = 1, cap: int | None = None) -> dict:
    """Annotate with random vectors; return the report."""
    graph, edges, labels, pairs = folders(root, "graph", "edges", "clusters", "pairs")
    write_graph(corpus, Drawn(corpus), 4, graph)
    write_edges(graph, top_k, False, edges)
    write_clusters(corpus, edges, labels)
    write_pairs(corpus, labels, cap, 0, pairs)
    return read_report(pairs)


def all_of(pairs: Pairs) -> np.ndarray:
    return np.concatenate(list(pairs.chunks()), axis=1)


def listed(edges: Edges) -> list[tuple[int, int]]:
    return list(zip(edges.i.tolist(), edges.j.tolist(), strict=True))
