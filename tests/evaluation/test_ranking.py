"""Ranks by inner product: blocks, NaN, ties by id."""

import numpy as np
import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation import ranking
from sentemb_core.evaluation.metrics import UNRANKED
from sentemb_core.evaluation.ranking import (
    Relevant,
    counted_ranks,
    inner_products,
    ranks_of_relevant,
    without,
)


def one_each(items: list[int]) -> Relevant:
    return Relevant(np.arange(len(items)), np.array(items), np.arange(len(items) + 1))


def test_blocks_keep_the_ranks(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    queries = rng.integers(-3, 4, (30, 4)).astype(np.float32)
    candidates = rng.integers(-3, 4, (20, 4)).astype(np.float32)
    wanted = Relevant(np.arange(30), rng.integers(0, 20, 60), np.arange(0, 61, 2))
    whole = ranks_of_relevant(queries, candidates, wanted, np.arange(20))
    monkeypatch.setattr(ranking, "CELLS", 50)
    cut = ranks_of_relevant(queries, candidates, wanted, np.arange(20))
    assert cut.rank.tolist() == whole.rank.tolist()
    assert (np.diff(whole.rank.reshape(30, 2)) >= 0).all()


def test_only_the_queries_are_read():
    queries = np.eye(3, dtype=np.float32)
    queries[1] = np.nan
    wanted = Relevant(np.array([0, 2]), np.array([0, 0]), np.array([0, 1, 2]))
    found = ranks_of_relevant(queries, np.eye(3, dtype=np.float32), wanted, np.arange(3))
    assert found.rank.tolist() == [1, 3]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_score_that_is_not_finite_is_refused(bad: float):
    candidates = np.eye(3, dtype=np.float32)
    candidates[2, 0] = bad
    with pytest.raises(BadEmbeddingError, match="2 of 2 queries"):
        ranks_of_relevant(np.ones((2, 3), np.float32), candidates, one_each([0, 1]), np.arange(3))


def test_equal_scores_rank_the_larger_id_first():
    same = np.ones((4, 2), np.float32)
    ids = np.array([2, 0, 3, 1])
    found = ranks_of_relevant(same, same, one_each([0, 1, 2, 3]), ids)
    assert found.rank.tolist() == [2, 4, 1, 3]


@pytest.mark.parametrize(
    ("dim", "count", "copies"),
    [
        *((dim, count, 2) for dim in (16, 32, 384) for count in (3, 17, 65)),
        *((384, 1, copies) for copies in (37, 97, 1001)),
    ],
)
def test_equal_candidates_score_equally(dim: int, count: int, copies: int):
    """A matrix product alone rounds its last columns differently, which breaks the ties."""
    rng = np.random.default_rng(0)
    candidates = np.tile(rng.standard_normal((count, dim)).astype(np.float32), (copies, 1))
    queries = rng.standard_normal((5, dim)).astype(np.float32)
    scores = inner_products(queries, candidates)(np.arange(5)).reshape(5, copies, count)
    assert (scores == scores[:, :1]).all()


def test_subset_of_queries_keeps_ranks_and_grades():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 5, (8, 15)).astype(np.float64)
    sizes = rng.integers(1, 6, 8)
    item = np.concatenate([rng.choice(15, size, replace=False) for size in sizes])
    bounds = np.append(0, np.cumsum(sizes))
    whole = Relevant(np.arange(8), item, bounds, rng.integers(1, 4, len(item)))
    kept = np.array([1, 4, 7])
    every, some = (
        counted_ranks(lambda rows: table[rows], wanted, np.arange(15))
        for wanted in (whole, whole.of(kept))
    )
    for place, query in enumerate(kept.tolist()):
        ours = slice(some.offsets[place], some.offsets[place + 1])
        theirs = slice(bounds[query], bounds[query + 1])
        assert some.rank[ours].tolist() == every.rank[theirs].tolist()
        assert some.grade[ours].tolist() == every.grade[theirs].tolist()


def test_hidden_candidate_is_unranked():
    table = np.array([[3.0, 2, 1], [3, 2, 1]])
    scores = without(lambda rows: table[rows], {1: np.array([0])})
    wanted = Relevant(np.arange(2), np.array([0, 1, 0, 1]), np.array([0, 2, 4]))
    found = counted_ranks(scores, wanted, np.arange(3))
    assert found.rank.tolist() == [1, 2, 1, UNRANKED]
