"""BM25 by bm25s: the row that every encoder is read against.

A text's score is the sum over the query's words of

    idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
        * qtf * (k3 + 1) / (qtf + k3)

with idf = log(1 + (N - df + .5) / (df + .5)) as in Lucene, k1 = 1.2, b = .75 (METHODS.md 1.20) and
k3 = 8 (Terrier's default; Robertson and Walker 1999). The last factor is 1 for a word that is said
once; a query that is a whole document says "the" a hundred times, and without it Recall@5 of blog
titles falls from .72 to .58. A word is a run of letters, digits or underscores, lowercased; no
stemming, no stop words, one field. State all of this beside a number: BM25 rows differ by points
for such details.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import bm25s
import numpy as np
from jaxtyping import Float64, Int64
from scipy import sparse

logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s sets itself to DEBUG on import

WORD = re.compile(r"\w+")
K1, B, K3 = 1.2, 0.75, 8.0


class BM25:
    """An index over texts; scores are the same in every process, whatever its hash seed."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.vocabulary = {"": 0}  # an entry that no text has: an index without words stands too
        ids = [
            [self.vocabulary.setdefault(word, len(self.vocabulary)) for word in words(text)]
            for text in texts
        ]
        # atire's term frequency has the factor (k1 + 1) that Lucene drops from its scores
        index = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", dtype="float64")
        with np.errstate(invalid="ignore"):  # texts without a word have a mean length of 0
            index.index((ids, self.vocabulary), show_progress=False)
        parts = cast("dict[str, Any]", index.scores)
        columns = sparse.csc_array(
            (parts["data"], parts["indices"], parts["indptr"]),
            shape=(len(texts), len(self.vocabulary)),
        )
        self._weights = columns.T.tocsr()  # vocabulary x texts

    def scores(self, queries: Sequence[str]) -> Float64[np.ndarray, "queries texts"]:
        """Score of every indexed text for every query; 0 where they share no word."""
        return self.score_rows(queries)(np.arange(len(queries)))

    def score_rows(
        self, queries: Sequence[str]
    ) -> Callable[[Int64[np.ndarray, " rows"]], Float64[np.ndarray, "rows texts"]]:
        """A function from positions among the queries to their scores, for blocked reading."""
        weights = self._query_weights(queries)

        def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
            return (weights[rows] @ self._weights).toarray()

        return scores

    def _query_weights(self, queries: Sequence[str]) -> Any:
        known = [
            [self.vocabulary[word] for word in words(query) if word in self.vocabulary]
            for query in queries
        ]
        bounds = np.cumsum([0, *map(len, known)])
        columns = np.concatenate([np.array(ids, dtype=np.int64) for ids in known])
        counts = sparse.csr_array(
            (np.ones(len(columns)), columns, bounds), shape=(len(queries), len(self.vocabulary))
        )
        counts.sum_duplicates()
        counts.data *= (K3 + 1) / (counts.data + K3)
        return counts


def words(text: str) -> Iterator[str]:
    """Lowercased runs of letters, digits and underscores."""
    return (match.group() for match in WORD.finditer(text.lower()))
