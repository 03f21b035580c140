"""Recall@k and MRR on a validation pool: documents look for their counterparts, and the reverse."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Float64, Int64

from sentemb_core.corpus.validation_pool import Split, ValidationPool
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.bootstrap import by_unit
from sentemb_core.evaluation.metrics import Ranks, recall, reciprocal_rank
from sentemb_core.evaluation.ranking import (
    Relevant,
    ScoreRows,
    counted_ranks,
    inner_products,
    rows_of,
)
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.types import Json, Value

Direction = Literal["document_to_counterpart", "counterpart_to_document"]

RANKS: dict[Direction, str] = {
    "document_to_counterpart": "ranks.parquet",
    "counterpart_to_document": "reverse_ranks.parquet",
}
"""File with the ranks of each direction."""

SPLITS: tuple[Split, ...] = ("validation", "gate", "test")


@dataclass(frozen=True)
class Scorers:
    """One system's scores of a pool in its two directions."""

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
    """One system's scores on one split of a pool."""

    split: Split
    document_to_counterpart: DirectionScores
    counterpart_to_document: DirectionScores


Scores = dict[Split, RetrievalScores]


@dataclass(frozen=True)
class PoolRanks:
    """One split's ranks in both directions: the input of bootstraps and of the gate.

    Documents keep the order of the pool and have one relevant candidate each, so
    `document_to_counterpart.rank` has one rank per document.
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


def vector_scorers(
    documents: Float32[np.ndarray, "documents dim"],
    candidates: Float32[np.ndarray, "candidates dim"],
) -> Scorers:
    """Return inner products, in both directions."""
    return Scorers(inner_products(documents, candidates), inner_products(candidates, documents))


def rank_pool(pool: ValidationPool, scorers: Scorers, split: Split) -> PoolRanks:
    """Return the ranks of the split's documents and of their counterparts, against the whole pool.

    A counterpart looks for all of its documents.

    Raises:
        NoQueriesError: the split is empty.
        BadEmbeddingError: a score that is not finite.
    """
    places = pool.queries(split)
    if not len(places):
        raise NoQueriesError(
            f"The {split} split needs a query; found none in a pool of "
            f"{len(pool.query_document)} documents. Enlarge the split's share or the corpus."
        )
    by_id, whole = _order(pool.query_doc_id), pool.whole or pool
    candidate_by_id = np.full(pool.n_candidates, len(whole.query_doc_id))
    np.minimum.at(candidate_by_id, whole.query_candidate, _order(whole.query_doc_id))
    counterparts = Relevant(places, pool.query_candidate[places], np.arange(len(places) + 1))
    owners = _documents_of(pool.query_candidate, counterparts.item)
    return PoolRanks(
        split=split,
        document_to_counterpart=counted_ranks(
            scorers.document_to_counterpart, counterparts, candidate_by_id
        ),
        counterpart_to_document=counted_ranks(scorers.counterpart_to_document, owners, by_id),
        documents=len(by_id),
        candidates=pool.n_candidates,
    )


def write_scores(pool: ValidationPool, scorers: Scorers, folder: Path) -> Scores:
    """Write scores.json (means), and the first rank of every query of each direction.

    ranks.parquet has the documents with their counterparts, reverse_ranks.parquet the counterparts.

    A split without queries (a gate share of 0, a tiny corpus) is left out.
    """
    splits: list[Split] = [split for split in SPLITS if len(pool.queries(split))]
    ranks = {split: rank_pool(pool, scorers, split) for split in splits}
    scores: Scores = {split: ranks[split].scores() for split in splits}
    table = {
        "split": np.concatenate([np.full(len(pool.queries(s)), s) for s in splits]),
        "document": np.concatenate([pool.query_document[pool.queries(split)] for split in splits]),
        "counterpart": np.concatenate(
            [pool.query_candidate[pool.queries(split)] for split in splits]
        ),
        "rank": np.concatenate([ranks[split].document_to_counterpart.rank for split in splits]),
    }
    reverse = {split: ranks[split].counterpart_to_document.best for split in splits}
    of_counterparts = {
        "split": np.concatenate([np.full(len(reverse[s]), s) for s in splits]),
        "rank": np.concatenate(list(reverse.values())),
    }
    pq.write_table(pa.table(table), folder / RANKS["document_to_counterpart"])
    pq.write_table(pa.table(of_counterparts), folder / RANKS["counterpart_to_document"])
    text = json.dumps({split: row.model_dump() for split, row in scores.items()}, indent=1)
    (folder / "scores.json").write_text(text, encoding="utf-8")
    return scores


def read_scores(folder: Path) -> Scores:
    """Read what `write_scores` wrote."""
    stored: Json = json.loads((folder / "scores.json").read_text("utf-8"))
    return {
        split: RetrievalScores.model_validate(stored[split]) for split in SPLITS if split in stored
    }


def read_ranks(
    folder: Path, split: Split, direction: Direction = "document_to_counterpart"
) -> Int64[np.ndarray, " queries"]:
    """Return the first rank of every query of a direction, in the pool's order."""
    table = pq.read_table(folder / RANKS[direction], filters=[("split", "=", split)])
    return table["rank"].to_numpy().astype(np.int64)


def read_hits(folder: Path, split: Split, k: int = 5) -> Float64[np.ndarray, " counterparts"]:
    """Return Recall@k of the documents of each counterpart of a split (`bootstrap.by_unit`).

    In scores of earlier versions, which lack counterparts, each document counts.
    """
    file = folder / RANKS["document_to_counterpart"]
    table = pq.read_table(file, filters=[("split", "=", split)])
    hits = (table["rank"].to_numpy() <= k).astype(np.float64)
    if "counterpart" not in table.column_names:
        return hits
    return by_unit(hits, table["counterpart"].to_numpy())


def title_result(scores: Path, measure: str) -> TaskResult:
    """Return R@k (`measure`) of the test split as a task of the suite; a unit is a counterpart.

    `scores` is a folder that `write_scores` wrote.
    """
    hits = read_hits(scores, "test", int(measure.removeprefix("R@")))
    return TaskResult("title", measure, {measure: float(hits.mean())}, hits[:, None])


def _order(ids: Sequence[str]) -> Int64[np.ndarray, " n"]:
    """Return the place of each id among all ids in ascending order."""
    return np.argsort(np.argsort(ids, kind="stable"), kind="stable")


def _documents_of(
    candidate: Int64[np.ndarray, " documents"], wanted: Int64[np.ndarray, " n"]
) -> Relevant:
    """Return every distinct wanted candidate as a query for all documents that have it."""
    order = np.argsort(candidate, kind="stable")
    query = np.unique(wanted)
    starts = np.searchsorted(candidate[order], np.arange(query[-1] + 2))
    rows, offsets = rows_of(starts, query)
    return Relevant(query, order[rows], offsets)


def _means(ranks: Ranks, candidates: int) -> DirectionScores:
    at = {f"recall_at_{k}": float(recall(ranks, k).mean()) for k in (1, 5, 10, 20)}
    return DirectionScores(
        **at,
        mrr_at_10=float(reciprocal_rank(ranks, 10).mean()),
        queries=len(ranks),
        candidates=candidates,
    )
