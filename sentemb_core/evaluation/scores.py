"""Scores of one system on every split of a benchmark, and the ranks behind them, as files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from sentemb_core.corpus.validation_pool import Split, ValidationPool
from sentemb_core.evaluation.retrieval import (
    BenchmarkRanks,
    RetrievalScores,
    Scorers,
    rank_benchmark,
)
from sentemb_core.types import Json

Scores = dict[Split, RetrievalScores]

SPLITS: tuple[Split, ...] = ("validation", "gate", "test")


def write_scores(benchmark: ValidationPool, scorers: Scorers, folder: Path) -> Scores:
    """scores.json with the means, ranks.parquet with the rank of every document's counterpart.

    A split without queries (a gate share of 0, a tiny corpus) is left out.
    """
    splits: list[Split] = [split for split in SPLITS if len(benchmark.queries(split))]
    found: dict[Split, BenchmarkRanks] = {
        split: rank_benchmark(benchmark, scorers, split) for split in splits
    }
    scores: Scores = {split: ranks.scores() for split, ranks in found.items()}
    table = {
        "split": np.concatenate([np.full(len(benchmark.queries(s)), s) for s in splits]),
        "document": np.concatenate(
            [benchmark.query_document[benchmark.queries(split)] for split in splits]
        ),
        "rank": np.concatenate([found[split].document_to_counterpart.rank for split in splits]),
    }
    pq.write_table(pa.table(table), folder / "ranks.parquet")
    told = {split: row.model_dump() for split, row in scores.items()}
    (folder / "scores.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    return scores


def read_scores(folder: Path) -> Scores:
    """What `write_scores` wrote."""
    told: Json = json.loads((folder / "scores.json").read_text("utf-8"))
    scores: Scores = {}
    for split in SPLITS:
        if split in told:
            scores[split] = RetrievalScores.model_validate(told[split])
    return scores


def read_ranks(folder: Path, split: Split) -> Int64[np.ndarray, " queries"]:
    """Rank of every document's counterpart, in the benchmark's order; empty without queries."""
    table = pq.read_table(folder / "ranks.parquet", filters=[("split", "=", split)])
    return table["rank"].to_numpy().astype(np.int64)
