"""What an encoder, and the rows it is read against, reach on a test collection.

Measures are trec_eval's, ties too (`evaluation.ranking`); every document is ranked, whatever its
score, and every query counts. Scores are made in blocks of queries, so memory does not grow with
the collection but for one vector a document.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from sentemb_core.corpus.benchmark import unit_hash
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.collection_vectors import CollectionVectors
from sentemb_core.evaluation.collections import Collection, Measure
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.metrics import (
    Ranks,
    average_precision,
    capped_recall,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from sentemb_core.evaluation.random_encoder import DIM, random_vectors, text_hashes
from sentemb_core.evaluation.ranking import ScoreRows, counted_ranks, inner_products, without
from sentemb_core.evaluation.rescoring import ALPHAS, fused, rescored
from sentemb_core.evaluation.results import TaskResult
from sentemb_core.retrieval.bm25 import BM25, ENGLISH

Metric = Callable[[Ranks, int], Float64[np.ndarray, " queries"]]

MEASURES: dict[Measure, tuple[Metric, int]] = {
    "nDCG@10": (ndcg, 10),
    "MAP@10": (average_precision, 10),
    "MAP@100": (average_precision, 100),
    "MRR@10": (reciprocal_rank, 10),
    "P@10": (precision, 10),
    "R@1": (recall, 1),
    "R@5": (recall, 5),
    "R@10": (recall, 10),
    "R@20": (recall, 20),
    "R@100": (recall, 100),
    "R_cap@10": (capped_recall, 10),
}

Places = Int64[np.ndarray, " asking"]
"""Of queries in their collection, ascending."""


@dataclass(frozen=True)
class FusedResults:
    """Words and vectors together, on queries that chose nothing.

    Attributes:
        alpha: Of BM25 + alpha x cosine, chosen on the other half of the queries.
        curve: Main measure by alpha on that half.
        results: `bm25`, `encoder`, `rescored` and `fused` on the same reported queries, so that
            they compare pairwise.
    """

    alpha: float
    curve: Mapping[float, float]
    results: Mapping[str, TaskResult]


def retrieval_result(vectors: CollectionVectors, collection: Collection) -> TaskResult:
    """Of an encoder's vectors of the collection.

    Raises:
        BadEmbeddingError: A score is not finite.
    """
    return result_of(collection, inner_products(vectors.queries, vectors.documents))


def bm25_result(collection: Collection) -> TaskResult:
    """BM25 over title and text in one field, k1 1.2 and b 0.75, without English stop words."""
    return result_of(collection, _bm25_rows(collection))


def random_result(collection: Collection, seed: int) -> TaskResult:
    """An encoder that gives every distinct text a random direction: what chance finds."""
    documents, queries = (
        random_vectors(text_hashes(texts), DIM, seed)
        for texts in (collection.documents, collection.queries)
    )
    return result_of(collection, inner_products(queries, documents))


def constant_result(collection: Collection) -> TaskResult:
    """An encoder that gives all texts one vector: what the order of the ids finds."""
    width = len(collection.document_ids)
    return result_of(collection, lambda rows: np.zeros((len(rows), width), np.float32))


def fused_results(
    vectors: CollectionVectors,
    collection: Collection,
    alphas: Sequence[float] = ALPHAS,
) -> FusedResults:
    """BM25's first 1,000 rescored by BM25 + alpha x cosine, and reciprocal rank fusion.

    Fused are the ranks by the encoder's own similarity. A hash of its id puts each query into the
    half that chooses alpha, the smallest among equals, or into the half that is reported (erratum
    E28).

    Raises:
        NoQueriesError: E502, a half has no query.
        BadEmbeddingError: A score is not finite.
    """
    choosing, reported = query_halves(collection)
    words = _bm25_rows(collection)
    products = inner_products(vectors.queries, vectors.documents)
    cosines = inner_products(directions(vectors.queries), directions(vectors.documents))
    curve = {
        alpha: result_of(collection, rescored(words, cosines, alpha), choosing).value
        for alpha in alphas
    }
    alpha = max(curve, key=lambda one: (curve[one], -one))
    rows = {
        "bm25": words,
        "encoder": products,
        "rescored": rescored(words, cosines, alpha),
        "fused": fused(words, products),
    }
    results = {name: result_of(collection, scores, reported) for name, scores in rows.items()}
    return FusedResults(alpha, curve, results)


def query_halves(collection: Collection) -> tuple[Places, Places]:
    """Places of the queries that choose alpha, and of those that are reported.

    Raises:
        NoQueriesError: E502, one of them is empty.
    """
    chooses = np.array([unit_hash("fusion", key) < 0.5 for key in collection.query_ids])
    if chooses.all() or not chooses.any():
        raise NoQueriesError(
            "Alpha is chosen on some queries and reported on others; the hash puts all "
            f"{len(chooses)} of {collection.name} into one half: take more queries."
        )
    return np.flatnonzero(chooses), np.flatnonzero(~chooses)


def result_of(
    collection: Collection, scores: ScoreRows, places: Places | None = None
) -> TaskResult:
    """Measures of any scores of the collection's documents, of these queries or of all.

    Raises:
        BadEmbeddingError: A score is not finite.
    """
    relevant = collection.relevant if places is None else collection.relevant.of(places)
    by_id = np.argsort(np.argsort(collection.document_ids, kind="stable"), kind="stable")
    ranks = counted_ranks(without(scores, collection.hidden), relevant, by_id)
    values = {name: metric(ranks, k) for name, (metric, k) in MEASURES.items()}
    return TaskResult(
        task=collection.name,
        main=collection.main,
        measures={name: float(value.mean()) for name, value in values.items()},
        units=values[collection.main][:, None],
    )


def _bm25_rows(collection: Collection) -> ScoreRows:
    return BM25(collection.documents, stop_words=ENGLISH).score_rows(collection.queries)
