"""Documents look for their counterparts and counterparts for their documents, in a fixed pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.corpus.validation_pool import Split, ValidationPool
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.metrics import Ranks, recall, reciprocal_rank
from sentemb_core.evaluation.ranking import Relevant, ScoreRows, counted_ranks, inner_products
from sentemb_core.types import Value


@dataclass(frozen=True)
class Scorers:
    """How one system scores a benchmark's pool in its two directions."""

    document_to_counterpart: ScoreRows
    counterpart_to_document: ScoreRows


class DirectionScores(Value):
    """Means over the queries of one direction."""

    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    recall_at_20: float
    mrr_at_10: float
    queries: int
    candidates: int


class RetrievalScores(Value):
    """What one system reaches on one split of a benchmark."""

    split: Split
    document_to_counterpart: DirectionScores
    counterpart_to_document: DirectionScores


@dataclass(frozen=True)
class BenchmarkRanks:
    """One split's ranks in both directions: what bootstraps and the gate compare.

    Documents come in the order of the benchmark and have one relevant candidate each, so
    `document_to_counterpart.rank` is one rank a document.
    """

    split: Split
    document_to_counterpart: Ranks
    counterpart_to_document: Ranks
    documents: int
    candidates: int

    def scores(self) -> RetrievalScores:
        return RetrievalScores(
            split=self.split,
            document_to_counterpart=_means(self.document_to_counterpart, self.candidates),
            counterpart_to_document=_means(self.counterpart_to_document, self.documents),
        )


def rank_benchmark(benchmark: ValidationPool, scorers: Scorers, split: Split) -> BenchmarkRanks:
    """Ranks of the split's documents and of their counterparts, each against the whole pool.

    A counterpart asks for all of its documents, those of other splits too.

    Raises:
        NoQueriesError: the split is empty.
        BadEmbeddingError: a score that is not finite.
    """
    places = benchmark.queries(split)
    if not len(places):
        raise NoQueriesError(
            f"The {split} split of the benchmark has no query (its pool has "
            f"{len(benchmark.query_document)} documents): enlarge its share or the corpus."
        )
    by_id, whole = _order(benchmark.query_doc_id), benchmark.whole or benchmark
    candidate_by_id = np.full(benchmark.n_candidates, len(whole.query_doc_id))
    np.minimum.at(candidate_by_id, whole.query_candidate, _order(whole.query_doc_id))
    counterparts = Relevant(places, benchmark.query_candidate[places], np.arange(len(places) + 1))
    owners = _documents_of(benchmark.query_candidate, counterparts.item)
    return BenchmarkRanks(
        split=split,
        document_to_counterpart=counted_ranks(
            scorers.document_to_counterpart, counterparts, candidate_by_id
        ),
        counterpart_to_document=counted_ranks(scorers.counterpart_to_document, owners, by_id),
        documents=len(by_id),
        candidates=benchmark.n_candidates,
    )


def _order(ids: Sequence[str]) -> Int64[np.ndarray, " n"]:
    """Place of each among all, sorted."""
    return np.argsort(np.argsort(ids, kind="stable"), kind="stable")


def vector_scorers(
    documents: Float32[np.ndarray, "documents dim"],
    candidates: Float32[np.ndarray, "candidates dim"],
) -> Scorers:
    """Inner products, in one direction and the other."""
    return Scorers(inner_products(documents, candidates), inner_products(candidates, documents))


def _documents_of(
    candidate: Int64[np.ndarray, " documents"], wanted: Int64[np.ndarray, " n"]
) -> Relevant:
    """Every distinct wanted candidate as a query for all documents that have it."""
    order = np.argsort(candidate, kind="stable")
    query = np.unique(wanted)
    start = np.searchsorted(candidate[order], query, side="left")
    sizes = np.searchsorted(candidate[order], query, side="right") - start
    ends = np.cumsum(sizes)
    item = order[np.arange(ends[-1]) + np.repeat(start - ends + sizes, sizes)]
    return Relevant(query, item, np.append(0, ends))


def _means(ranks: Ranks, candidates: int) -> DirectionScores:
    at = {k: float(recall(ranks, k).mean()) for k in (1, 5, 10, 20)}
    return DirectionScores(
        recall_at_1=at[1],
        recall_at_5=at[5],
        recall_at_10=at[10],
        recall_at_20=at[20],
        mrr_at_10=float(reciprocal_rank(ranks, 10).mean()),
        queries=len(ranks),
        candidates=candidates,
    )
