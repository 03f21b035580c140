"""BM25: the baseline of every encoder.

A text's score is the sum over the query's words of

    idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
        * qtf * (k3 + 1) / (qtf + k3)

with k1 = 1.2, b = .75 (Lucene's defaults) and k3 = 8 (Terrier's; Robertson and Walker 1999).
The last factor is 1 for a word that occurs once. A query that is a whole document repeats "the" a
hundred times; without this factor Recall@5 of blog titles falls from .72 to .58. Words are those of
words.py, lowercased; no stemming, one field; words in `stop_words` count neither as words nor as
length. Report all of this beside a number: such details change BM25 by points.
"""

import logging
import sys
from array import array
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float64, Int64
from scipy import sparse

from sentemb_core.tokenize import words


@contextmanager
def without_jax() -> Generator[None]:
    """Block the import of JAX inside the block, unless it is imported already.

    bm25s starts JAX if it is installed, for a search that is not used here. On a GPU, JAX then
    takes three quarters of the memory (109 of 144 GB of an H200).
    """
    modules = cast("dict[str, Any]", sys.modules)
    if "jax" in modules:
        yield
        return
    modules["jax"] = None
    try:
        yield
    finally:
        del modules["jax"]


with without_jax():
    import bm25s
    from bm25s.stopwords import STOPWORDS_EN_PLUS

logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s sets itself to DEBUG on import

K3 = 8.0

TEXTS, BLOCK = 1_000, 1 << 18
"""Texts that are counted, and weights that are computed, at once."""

ENGLISH = frozenset(STOPWORDS_EN_PLUS)
"""179 words without a topic (NLTK's list).

The BM25 baseline leaves them out. A whole document as a query contains all of them, so that a title
would score for its "how to". Recall@5, documents for titles:

                        all words   without these
    blog_usgov               .701            .832
    news_reuters21578        .718            .758
    session_mixed_titles     .063            .062

For titles as queries they make no difference. Texts in other languages lose only the few words that
look like one of these.
"""


@dataclass(frozen=True)
class Form:
    """A variant of BM25.

    Attributes:
        tf: The number of occurrences in a text, or that number divided by the text's length.
        idf: log(1 + (N - df + .5) / (df + .5)) as in Lucene, or log(N / df).
        k1: Saturation of repeated words.
        b: Normalisation by length.
        k3: Saturation of a query's repeated words; None: a sum over the query's positions, in
            which they count linearly.
    """

    tf: Literal["raw", "relative"] = "raw"
    idf: Literal["lucene", "log"] = "lucene"
    k1: float = 1.2
    b: float = 0.75
    k3: float | None = K3

    def query_weights(self, counts: Any) -> Any:
        """Return the factor of each word from the number of its occurrences in a query."""
        return counts if self.k3 is None else counts * (self.k3 + 1) / (counts + self.k3)


LUCENE = Form()

PRODUCT_THESIS = Form(tf="relative", idf="log", k3=None)
"""The thesis's own form (erratum E25): lengths count twice, a word of all texts counts 0, and the
sum runs over the positions of the query. The thesis states no k1 and b; ours are Lucene's."""


class WordCounts:
    """Words of texts, counted once: for terms of every kind, as an index and as queries."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.vocabulary = known = dict[str, int]()
        ids = ((known.setdefault(word, len(known)) for word in words(text)) for text in texts)
        self._blocks = _counts(ids)

    def of_terms(
        self, terms: Callable[[str], Iterator[str]], vocabulary: dict[str, int], *, grow: bool
    ) -> Any:
        """Return the number of occurrences of each term in each text: sparse [texts, vocabulary].

        Args:
            terms: Terms of a text, which are those of its words in a row.
            vocabulary: The column of each term.
            grow: Whether other terms get a new column, in the order of their first appearance.
        """
        found = (self._columns(terms(word), vocabulary, grow=grow) for word in self.vocabulary)
        of_words = _stacked(_counts(found), len(vocabulary))
        counts = _stacked(
            [block @ of_words[: block.shape[1]] for block in self._blocks], len(vocabulary)
        )
        counts.sort_indices()
        return counts

    @staticmethod
    def _columns(terms: Iterator[str], vocabulary: dict[str, int], *, grow: bool) -> Iterator[int]:
        if grow:
            return (vocabulary.setdefault(term, len(vocabulary)) for term in terms)
        return (vocabulary[term] for term in terms if term in vocabulary)


class BM25:
    """An index over texts; scores do not depend on the hash seed of the process."""

    def __init__(
        self,
        texts: Sequence[str] | WordCounts,
        form: Form = LUCENE,
        stop_words: Collection[str] = frozenset(),
        terms: Callable[[str], Iterator[str]] = words,
    ) -> None:
        self.form = form
        self.stop_words = stop_words
        self.terms = terms
        self.vocabulary = {"": 0}  # an entry of no text, so that an index without words works
        self._weights = _weights(self._counts(texts, grow=True), form)

    def scores(self, queries: Sequence[str]) -> Float64[np.ndarray, "queries texts"]:
        """Return the score of every indexed text for every query; 0 without a common word."""
        return self.score_rows(queries)(np.arange(len(queries)))

    def score_rows(
        self, queries: Sequence[str] | WordCounts
    ) -> Callable[[Int64[np.ndarray, " rows"]], Float64[np.ndarray, "rows texts"]]:
        """Return a function from places of queries to their scores, for reading in blocks."""
        weights = self._counts(queries, grow=False).astype(np.float64)
        weights.data = self.form.query_weights(weights.data)

        def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
            return (weights[rows] @ self._weights).toarray()

        return scores

    def save(self, folder: Path) -> None:
        """Write the index in the format of bm25s, for `StoredBM25`; weights are in float32."""
        index = bm25s.BM25(method="atire", dtype="float32")
        index.scores = {
            "data": self._weights.data.astype(np.float32),
            "indices": self._weights.indices.astype(np.int32),
            "indptr": self._weights.indptr.astype(np.int64),
            "num_docs": self._weights.shape[1],
        }
        index.vocab_dict, index.nonoccurrence_array = self.vocabulary, None
        index.save(folder, show_progress=False)

    def _counts(self, texts: Sequence[str] | WordCounts, *, grow: bool) -> Any:
        counted = texts if isinstance(texts, WordCounts) else WordCounts(texts)
        return counted.of_terms(self._terms, self.vocabulary, grow=grow)

    def _terms(self, text: str) -> Iterator[str]:
        return (term for term in self.terms(text) if term not in self.stop_words)


class StoredBM25:
    """A saved index whose arrays stay on the disk: a query reads the texts of its terms only.

    Args:
        folder: A folder of `BM25.save`.
        terms: Those of the saved index.
    """

    def __init__(self, folder: Path, terms: Callable[[str], Iterator[str]]) -> None:
        index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        arrays = cast("dict[str, Any]", index.scores)
        self.terms = terms
        self.vocabulary = cast("dict[str, int]", index.vocab_dict)
        self.texts = int(arrays["num_docs"])
        self._data, self._indices = np.asarray(arrays["data"]), np.asarray(arrays["indices"])
        self._bounds = np.asarray(arrays["indptr"])

    def knows(self, query: str) -> bool:
        """Whether a term of the query is in the index."""
        return any(term in self.vocabulary for term in self.terms(query))

    def scores(self, query: str) -> Float64[np.ndarray, " texts"]:
        """Return the score of every text; 0 without a common term."""
        counts = Counter(filter(self.vocabulary.__contains__, self.terms(query)))
        scores = np.zeros(self.texts)
        for term, count in counts.items():
            word = self.vocabulary[term]
            some = slice(self._bounds[word], self._bounds[word + 1])
            scores[self._indices[some]] += self._data[some] * LUCENE.query_weights(count)
        return scores


def _weights(counts: Any, form: Form) -> Any:
    """Return the weight of each word in each text, sparse [vocabulary, texts], from its counts.

    Words are weighted in blocks: beside the weights, memory holds one block.
    """
    lengths = np.asarray(counts.sum(axis=1, dtype=np.float64))
    norms = form.k1 * (1 - form.b + form.b * lengths / (lengths.mean() or 1.0))
    weights = counts.T.tocsr()
    del counts  # as large as the weights
    in_texts, bounds = np.diff(weights.indptr), weights.indptr
    odds = (len(lengths) - in_texts + 0.5) / (in_texts + 0.5)
    with np.errstate(divide="ignore"):  # a word of no text
        idf = np.log1p(odds) if form.idf == "lucene" else np.log(len(lengths) / in_texts)
    weighted = np.empty(weights.nnz)
    blocks = np.unique(np.searchsorted(bounds, np.arange(0, weights.nnz + BLOCK, BLOCK)))
    for first, end in pairwise(blocks.clip(0, len(in_texts)).tolist()):
        some = slice(bounds[first], bounds[end])
        texts, tf = weights.indices[some], weights.data[some].astype(np.float64)
        if form.tf == "relative":
            tf /= lengths[texts]
        own = np.repeat(idf[first:end], in_texts[first:end])
        weighted[some] = own * tf * (form.k1 + 1) / (tf + norms[texts])
    weights.data = weighted
    return weights


def _counts(texts: Iterable[Iterable[int]]) -> list[Any]:
    """Return the number of occurrences of each id in each text: sparse blocks [texts, ids].

    Texts are counted in blocks, so that memory never holds one number for each word of all texts.
    """
    left = iter(texts)
    return [_counts_of_block(some) for some in iter(lambda: list(islice(left, TEXTS)), [])]


def _stacked(blocks: Sequence[Any], width: int) -> Any:
    for block in blocks:
        block.resize((block.shape[0], width))
    return sparse.vstack(blocks, "csr") if blocks else sparse.csr_array((0, width))


def _counts_of_block(texts: Iterable[Iterable[int]]) -> Any:
    ids, bounds = array("i"), array("i", [0])
    for text in texts:
        ids.extend(text)
        bounds.append(len(ids))
    parts = np.ones(len(ids), np.float32), np.array(ids, np.int32), np.array(bounds, np.int32)
    shape = len(bounds) - 1, max(ids, default=-1) + 1
    counts = sparse.csr_array(parts, shape=shape)
    counts.sum_duplicates()
    return counts
