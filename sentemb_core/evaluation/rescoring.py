"""Words find, vectors order: BM25's first texts scored again with an encoder, and rank fusion."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.evaluation.ranking import ScoreRows
from sentemb_core.evaluation.validation_scores import RetrievalScores, Scorers, rank_pool

DEPTH = 1_000
"""Texts that BM25 hands on (product_thesis, "BM25 + rescoring")."""

ALPHAS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Titles as queries have BM25 scores of some tens, whole documents of some hundreds; cosines stay
below 1."""

RANK_OFFSET = 60.0
"""Of Cormack, Clarke and Buettcher (2009)."""


def rescored(words: ScoreRows, vectors: ScoreRows, alpha: float, depth: int = DEPTH) -> ScoreRows:
    """BM25 + alpha * cosine for BM25's first `depth` texts; the others follow in BM25's order.

    A text that shares no word with the query is not found, and all that tie for the last place are,
    so that nothing hangs on the order of the texts. With alpha 0 the order is BM25's; with a large
    alpha the vectors order what BM25 found.
    """

    def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
        first = np.asarray(words(rows), np.float64)
        found = _found(first, depth)
        again = first + alpha * vectors(rows)
        last_found = np.where(found, again, np.inf).min(axis=1, keepdims=True)
        best_left = np.where(found, -np.inf, first).max(axis=1, keepdims=True)
        return np.where(found, again, first - np.maximum(best_left - last_found + 1, 0))

    return scores


def fused(first: ScoreRows, second: ScoreRows) -> ScoreRows:
    """1 / (60 + rank) of both orders, added up: reciprocal rank fusion. Equals share a rank."""

    def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
        return 1 / (RANK_OFFSET + _ranks(first(rows))) + 1 / (RANK_OFFSET + _ranks(second(rows)))

    return scores


def rescored_scorers(words: Scorers, vectors: Scorers, alpha: float) -> Scorers:
    """`rescored` in both directions of a benchmark."""
    return Scorers(
        rescored(words.document_to_counterpart, vectors.document_to_counterpart, alpha),
        rescored(words.counterpart_to_document, vectors.counterpart_to_document, alpha),
    )


def alpha_sweep(
    benchmark: ValidationPool, words: Scorers, vectors: Scorers, alphas: Sequence[float] = ALPHAS
) -> dict[float, RetrievalScores]:
    """Scores of every alpha on the validation split: no other may choose it (erratum E28)."""
    return {
        alpha: rank_pool(benchmark, rescored_scorers(words, vectors, alpha), "validation").scores()
        for alpha in alphas
    }


def best_alpha(sweep: Mapping[float, RetrievalScores]) -> float:
    """Of the highest Recall@5 from documents to counterparts; the smallest among equals."""
    return max(sweep, key=lambda alpha: (sweep[alpha].document_to_counterpart.recall_at_5, -alpha))


def _found(scores: Float64[np.ndarray, "rows texts"], depth: int) -> Bool[np.ndarray, "rows texts"]:
    depth = min(depth, scores.shape[1])
    last = np.partition(scores, -depth, axis=1)[:, -depth, None]
    return (scores >= last) & (scores > 0)


def _ranks(scores: Float[np.ndarray, "rows texts"]) -> Int64[np.ndarray, "rows texts"]:
    """1 + the texts of a row that score higher."""
    below = [np.searchsorted(np.sort(row), row, side="right") for row in scores]
    return 1 + scores.shape[1] - np.array(below, dtype=np.int64).reshape(scores.shape)
