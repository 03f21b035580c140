"""BM25 and an encoder together: rescoring of BM25's first texts, and reciprocal rank fusion."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Float64, Int64

from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.evaluation.ranking import ScoreRows
from sentemb_core.evaluation.validation_scores import RetrievalScores, Scorers, rank_pool
from sentemb_core.retriever.fusion import first_places, ranked_again

DEPTH = 1_000
"""Texts of BM25 that are rescored (product_thesis, "BM25 + rescoring")."""

ALPHAS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""BM25 scores are some tens for a title as query and some hundreds for a document; cosines are
below 1."""

RANK_OFFSET = 60.0
"""The constant of Cormack, Clarke and Buettcher (2009)."""


def rescored(words: ScoreRows, vectors: ScoreRows, alpha: float, depth: int = DEPTH) -> ScoreRows:
    """Return BM25 + alpha * cosine for BM25's first `depth` texts; the others keep BM25's order.

    Texts without a common word are not among the first. All texts that tie for the last place are,
    so the order of the texts plays no part. Alpha 0 gives BM25's order; a large alpha gives the
    cosines' order.
    """

    def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
        bm25 = np.asarray(words(rows), np.float64)
        among = first_places(bm25, depth) & (bm25 > 0)
        return ranked_again(bm25, bm25 + alpha * vectors(rows), among)

    return scores


def fused(first: ScoreRows, second: ScoreRows) -> ScoreRows:
    """Return reciprocal rank fusion: 1 / (60 + rank) summed over both orders; ties share ranks."""

    def scores(rows: Int64[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows texts"]:
        return 1 / (RANK_OFFSET + _ranks(first(rows))) + 1 / (RANK_OFFSET + _ranks(second(rows)))

    return scores


def rescored_scorers(words: Scorers, vectors: Scorers, alpha: float) -> Scorers:
    """Return `rescored` in both directions of a pool."""
    return Scorers(
        rescored(words.document_to_counterpart, vectors.document_to_counterpart, alpha),
        rescored(words.counterpart_to_document, vectors.counterpart_to_document, alpha),
    )


def alpha_sweep(
    pool: ValidationPool, words: Scorers, vectors: Scorers, alphas: Sequence[float] = ALPHAS
) -> dict[float, RetrievalScores]:
    """Return the scores of every alpha on the validation split, which chooses it (erratum E28)."""
    return {
        alpha: rank_pool(pool, rescored_scorers(words, vectors, alpha), "validation").scores()
        for alpha in alphas
    }


def best_alpha(sweep: Mapping[float, RetrievalScores]) -> float:
    """Return the alpha with the highest Recall@5 of the documents, the smallest among equals."""
    return max(sweep, key=lambda alpha: (sweep[alpha].document_to_counterpart.recall_at_5, -alpha))


def _ranks(scores: Float[np.ndarray, "rows texts"]) -> Int64[np.ndarray, "rows texts"]:
    """Return 1 + the number of texts in a row with a higher score."""
    below = [np.searchsorted(np.sort(row), row, side="right") for row in scores]
    return 1 + scores.shape[1] - np.array(below, dtype=np.int64).reshape(scores.shape)
