"""What an encoder, and the rows it is read against, reach on a test collection.

Measures are trec_eval's, ties too (`evaluation.ranking`); every document is ranked, whatever its
score, and every query that is judged counts, 0 where nothing is relevant to it. Scores are made in
blocks of queries, so memory does not grow with the collection but for one vector a document.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sentemb_core.corpus.validation_pool import unit_hash
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
from sentemb_core.evaluation.task_result import TaskResult
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

DIGITS = 12
"""Two means of the same values may differ in the last of 16, by the order of the queries."""

Places = Int64[np.ndarray, " _"]
"""Of queries in their collection, ascending; two halves need not be alike in size."""


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

    Fused are the ranks by the encoder's own similarity. `query_halves` says which
    queries choose alpha, the smallest among equals, and which are reported (erratum E28).

    Raises:
        NoQueriesError: E502, a half has no query.
        BadEmbeddingError: A score is not finite.
    """
    choosing, reported = query_halves(collection)
    # hidden before they are ranked: else a text that nobody can find takes a place of others
    words = without(_bm25_rows(collection), collection.hidden)
    products = without(inner_products(vectors.queries, vectors.documents), collection.hidden)
    cosines = inner_products(directions(vectors.queries), directions(vectors.documents))
    curve = {
        alpha: round(result_of(collection, rescored(words, cosines, alpha), choosing).value, DIGITS)
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

    Queries that answer each other (`Collection.tied`) are of one half: by the hash of the first id.

    Raises:
        NoQueriesError: E502, one of them has no query with a relevant document.
    """
    first: dict[int, str] = {}
    groups = collection.tied.tolist()
    for group, key in zip(groups, collection.query_ids, strict=True):
        first[group] = min(key, first.get(group, key))
    chooses = np.array([unit_hash("fusion", first[group]) < 0.5 for group in groups])
    answered = chooses[collection.relevant.query]
    if answered.all() or not answered.any():
        raise NoQueriesError(
            "Alpha is chosen on some queries and reported on others; the hash puts all "
            f"{len(answered)} of {collection.name} into one half: take more queries."
        )
    return np.flatnonzero(chooses), np.flatnonzero(~chooses)


def result_of(
    collection: Collection, scores: ScoreRows, places: Places | None = None
) -> TaskResult:
    """Measures of any scores of the collection's documents, of these queries or of all.

    A query to which nothing is relevant counts 0, as trec_eval has it; its capped recall is 0 / 0,
    and no part of that mean.

    Raises:
        BadEmbeddingError: A score is not finite.
    """
    places = np.arange(len(collection.query_ids)) if places is None else places
    relevant = collection.relevant.of(np.flatnonzero(np.isin(collection.relevant.query, places)))
    answered = np.isin(places, relevant.query)
    ranks = counted_ranks(without(scores, collection.hidden), relevant, collection.place_by_id)
    values = {
        name: found if metric is capped_recall else _zero_elsewhere(found, answered)
        for name, (metric, k) in MEASURES.items()
        for found in [metric(ranks, k)]
    }
    main = values[collection.main]
    tied = collection.tied[places if len(main) == len(places) else relevant.query]
    sums = np.stack([_sums(main, tied), _sums(np.ones(len(main)), tied)], axis=1)
    alone = len(sums) == len(main)
    return TaskResult(
        task=collection.name,
        main=collection.main,
        measures={name: float(value.mean()) for name, value in values.items()},
        units=main[:, None] if alone else sums,
        statistic="mean" if alone else "ratio",
    )


def _sums(
    values: Float64[np.ndarray, " queries"], groups: Int64[np.ndarray, " queries"]
) -> Float64[np.ndarray, " groups"]:
    return np.bincount(np.unique(groups, return_inverse=True)[1], values)


def _zero_elsewhere(
    values: Float64[np.ndarray, " answered"], answered: Bool[np.ndarray, " queries"]
) -> Float64[np.ndarray, " queries"]:
    every = np.zeros(len(answered))
    every[answered] = values
    return every


def _bm25_rows(collection: Collection) -> ScoreRows:
    return BM25(collection.documents, stop_words=ENGLISH).score_rows(collection.queries)
