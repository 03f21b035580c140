"""Scores of encoders, BM25 and chance on a test collection.

Measures and ties follow trec_eval (`evaluation.ranking`). Every document is ranked, whatever its
score. Every judged query counts; without a relevant document it counts 0. Scores are computed in
blocks of queries, so besides the vectors memory does not grow with the collection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sentemb_core.corpus.validation_pool import unit_hash
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.collection_vectors import CollectionVectors
from sentemb_core.evaluation.collections import Collection, Measure
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.metrics import PerQuery, values_of
from sentemb_core.evaluation.random_encoder import text_vectors
from sentemb_core.evaluation.ranking import ScoreRows, counted_ranks, inner_products, without
from sentemb_core.evaluation.rescoring import ALPHAS, fused, rescored
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.retrieval.bm25 import BM25, ENGLISH

MEASURES: tuple[Measure, ...] = get_args(Measure)

DIGITS = 12
"""Digits of means that are compared: the order of the queries may change the last of 16."""

Places = Int64[np.ndarray, " _"]
"""Places of queries in their collection, ascending; two halves may differ in size."""


@dataclass(frozen=True)
class FusedResults:
    """BM25 and vectors together, on queries that did not choose alpha.

    Attributes:
        alpha: In BM25 + alpha x cosine, chosen on the other half of the queries.
        curve: Main measure by alpha on that half.
        results: `bm25`, `encoder`, `rescored` and `fused` on the same reported queries.
    """

    alpha: float
    curve: Mapping[float, float]
    results: Mapping[str, TaskResult]


def retrieval_result(vectors: CollectionVectors, collection: Collection) -> TaskResult:
    """Return the result of an encoder's vectors.

    Raises:
        BadEmbeddingError: A score is not finite.
    """
    return result_of(collection, inner_products(vectors.queries, vectors.documents))


def bm25_result(collection: Collection) -> TaskResult:
    """Return BM25 over title and text in one field (k1 1.2, b 0.75, no English stop words)."""
    return result_of(collection, _bm25_rows(collection))


def random_result(collection: Collection, seed: int) -> TaskResult:
    """Return the result of random directions, one for every distinct text: chance."""
    sides = (text_vectors(texts, seed) for texts in (collection.queries, collection.documents))
    return result_of(collection, inner_products(*sides))


def constant_result(collection: Collection) -> TaskResult:
    """Return the result of one vector for all texts: the order of the ids."""
    width = len(collection.document_ids)
    return result_of(collection, lambda rows: np.zeros((len(rows), width), np.float32))


def fused_results(
    vectors: CollectionVectors, collection: Collection, alphas: Sequence[float] = ALPHAS
) -> FusedResults:
    """Return BM25's first 1,000 rescored by BM25 + alpha x cosine, and reciprocal rank fusion.

    The fusion uses the encoder's own similarity. One half of the queries (`query_halves`) chooses
    alpha, the smallest among equals; the other half is reported (erratum E28).

    Raises:
        NoQueriesError: E502, a half has no query.
        BadEmbeddingError: A score is not finite.
    """
    choosing, reported = query_halves(collection)
    # hidden before ranking: else a hidden text takes the place of another
    words = without(_bm25_rows(collection), collection.hidden)
    products = without(inner_products(vectors.queries, vectors.documents), collection.hidden)
    cosines = inner_products(directions(vectors.queries), directions(vectors.documents))
    curve = {
        alpha: round(result_of(collection, rescored(words, cosines, alpha), choosing).value, DIGITS)
        for alpha in alphas
    }
    alpha = max(curve, key=lambda value: (curve[value], -value))
    rows = {
        "bm25": words,
        "encoder": products,
        "rescored": rescored(words, cosines, alpha),
        "fused": fused(words, products),
    }
    results = {name: result_of(collection, scores, reported) for name, scores in rows.items()}
    return FusedResults(alpha, curve, results)


def query_halves(collection: Collection) -> tuple[Places, Places]:
    """Return the places of the queries that choose alpha, and of those that are reported.

    Queries that answer each other (`Collection.tied`) are in one half, by the hash of the first id.

    Raises:
        NoQueriesError: E502, a half has no query with a relevant document.
    """
    first: dict[int, str] = {}
    groups = collection.tied.tolist()
    for group, key in zip(groups, collection.query_ids, strict=True):
        first[group] = min(key, first.get(group, key))
    chooses = np.array([unit_hash("fusion", first[group]) < 0.5 for group in groups])
    answered = chooses[collection.relevant.query]
    if answered.all() or not answered.any():
        raise NoQueriesError(
            "Alpha needs queries to choose it and others to report; the hash puts all "
            f"{len(answered)} of {collection.name} into one half. Take more queries."
        )
    return np.flatnonzero(chooses), np.flatnonzero(~chooses)


def result_of(
    collection: Collection, scores: ScoreRows, places: Places | None = None
) -> TaskResult:
    """Return the measures of any scores, for these queries or for all.

    A query without a relevant document counts 0, as in trec_eval. Its capped recall is 0 / 0 and
    not part of the mean.

    Raises:
        BadEmbeddingError: A score is not finite.
    """
    places = np.arange(len(collection.query_ids)) if places is None else places
    relevant = collection.relevant.of(np.flatnonzero(np.isin(collection.relevant.query, places)))
    answered = np.isin(places, relevant.query)
    ranks = counted_ranks(without(scores, collection.hidden), relevant, collection.place_by_id)
    values = {
        name: value if name == "R_cap@10" else _zero_elsewhere(value, answered)
        for name in MEASURES
        for value in [values_of(name, ranks)]
    }
    main = values[collection.main]
    tied = collection.tied[places if len(main) == len(places) else relevant.query]
    group = np.unique(tied, return_inverse=True)[1]
    sums = np.stack([np.bincount(group, main), np.bincount(group)], axis=1)
    alone = len(sums) == len(main)
    return TaskResult(
        task=collection.name,
        main=collection.main,
        measures={name: float(value.mean()) for name, value in values.items()},
        units=main[:, None] if alone else sums,
        statistic="mean" if alone else "ratio",
    )


def _zero_elsewhere(
    values: Float64[np.ndarray, " answered"], answered: Bool[np.ndarray, " queries"]
) -> PerQuery:
    every = np.zeros(len(answered))
    every[answered] = values
    return every


def _bm25_rows(collection: Collection) -> ScoreRows:
    return BM25(collection.documents, stop_words=ENGLISH).score_rows(collection.queries)
