"""Readings and retrievers with random vectors and invented words."""

from collections.abc import Sequence

import numpy as np
import torch

from sentemb_core.corpus.table import Document
from sentemb_core.encoder.dense import linear
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.retriever.tokens import SCALE, TokenVectors
from sentemb_core.retriever.vectors import Sides, side_of
from sentemb_core.retriever.words import Texts
from tests import tiny

DIM = 8
WHOLE = RetrieverSpec(
    vectors=(Vectors(folder="", weight=0.7), Vectors(folder="table", weight=0.3)),
    best_sentence=0.5,
    words="stems_and_letters",
    tokens=True,
)
"""A retriever with every part."""


def retriever(spec: RetrieverSpec = WHOLE) -> Retriever:
    """Return a retriever of tiny encoders: a transformer at the root, a static table beside it."""
    encoders = {"": tiny.bert, "table": tiny.static}
    kept = {each.folder: encoders[each.folder]() for each in spec.vectors}
    rng = torch.Generator().manual_seed(1)
    map_ = linear(torch.randn(DIM, 16, generator=rng), torch.randn(DIM, generator=rng))
    return Retriever(spec, kept, map_ if spec.tokens else None)


def documents(count: int, seed: int = 0) -> list[Document]:
    """Return documents of one to five sentences of tiny words, with titles."""
    rng = np.random.default_rng(seed)
    made = []
    for k in range(count):
        own = rng.integers(4, tiny.VOCABULARY, 6)
        sentences = [sentence(rng, own) for _ in range(rng.integers(1, 6))]
        made.append(Document(f"d{k}", list(dict.fromkeys(sentences)), sentence(rng, own), k))
    return made


def sentence(rng: np.random.Generator, words: Sequence[int]) -> str:
    """Return two to nine of the words w4, w5, ..."""
    return " ".join(f"w{word}" for word in rng.choice(words, rng.integers(2, 10)))


def directions(rng: np.random.Generator, rows: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def starts_of(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def side(rng: np.random.Generator, sizes: Sequence[int]) -> Sides:
    """Return random texts of these numbers of sentences."""
    return side_of(directions(rng, sum(sizes)), starts_of(sizes))


def tokens(rng: np.random.Generator, sizes: Sequence[int], *, int8: bool = False) -> TokenVectors:
    """Return random token vectors of texts of these numbers of tokens."""
    rows = directions(rng, sum(sizes))
    return TokenVectors((rows * SCALE).round().astype(np.int8) if int8 else rows, starts_of(sizes))


def readings(rng: np.random.Generator, sizes: Sequence[int], *, int8: bool = False) -> Readings:
    """Return random readings of texts of these numbers of sentences, for `WHOLE`."""
    texts = [sentence(rng, range(4, 40)) for _ in sizes]
    counts = rng.integers(1, 9, len(sizes)).tolist()
    sides = {"": side(rng, sizes), "table": side(rng, sizes)}
    return Readings(Texts(texts), sides, {"": tokens(rng, counts, int8=int8)})
