"""What the benchmark of default runs makes of the values of queries."""

import numpy as np

from benchmarks.default_runs import BM25, RETURNED, START, rows, table
from benchmarks.retriever_corpora import BACKWARD, FORWARD, SEARCH

WAYS = ((FORWARD, "MRR@10"), (BACKWARD, "MRR@10"))


def of_seed(seed: int, queries: int = 40) -> dict[str, dict[tuple[str, str], np.ndarray]]:
    rng = np.random.default_rng(seed)
    base = {way: rng.uniform(0, 0.5, queries) for way in WAYS}
    return {
        BM25: base,
        START: {way: each + 0.1 for way, each in base.items()},
        RETURNED: {way: each + 0.3 for way, each in base.items()},
    }


def test_means_spreads_and_differences_are_those_of_all_seeds():
    values = [of_seed(1), of_seed(2)]
    made = list(rows("blog", [1, 2], values, ["a", "b", "a"]))
    forward = [row for row in made if row.direction == FORWARD]
    means = [each[BM25][WAYS[0]].mean() for each in values]
    (bm25,) = [row for row in forward if row.system == BM25]
    assert (bm25.value, bm25.spread) == (np.mean(means), np.std(means, ddof=1))
    assert (bm25.units, bm25.seeds) == (80, (1, 2))
    gains = {row.baseline: round(row.value or 0, 9) for row in forward if row.baseline}
    assert gains == {BM25: 0.3, START: 0.2}
    assert all(row.is_significant for row in forward if row.baseline)
    assert [row.note for row in forward if row.system == "parts"] == ["a; b"]


def test_the_queries_of_a_collection_are_the_same_for_every_seed():
    way = (SEARCH, "nDCG@10")
    values = [{name: {way: np.full(7, 0.5)} for name in (BM25, START, RETURNED)}] * 3
    assert {row.units for row in rows("cacm", [1, 2, 3], values, ["a"])} == {7}


def test_new_rows_replace_those_of_their_corpus(monkeypatch):
    monkeypatch.setattr("benchmarks.default_runs.load", lambda name: [])
    stored = table(600, list(rows("scitldr", [1], [of_seed(1)], ["a"])))
    monkeypatch.setattr("benchmarks.default_runs.load", lambda name: [stored])
    made = table(600, list(rows("blog", [1], [of_seed(2)], ["b"])))
    assert [row.task for row in made.rows] == ["blog"] * 14 + ["scitldr"] * 14
    made = table(600, list(rows("scitldr", [1], [of_seed(3)], ["c"])))
    assert {row.system: row.note for row in made.rows if row.note} == {"parts": "c", "seeds": "1"}
    assert len(made.lines()) == 2
