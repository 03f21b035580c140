"""Ranks by inner product: blocks, NaN, ties by id."""

import numpy as np
import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation import ranking
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant


def one_each(items: list[int]) -> Relevant:
    return Relevant(np.arange(len(items)), np.array(items), np.arange(len(items) + 1))


def test_ranks_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    queries = rng.integers(-3, 4, (30, 4)).astype(np.float32)
    candidates = rng.integers(-3, 4, (20, 4)).astype(np.float32)
    wanted = Relevant(np.arange(30), rng.integers(0, 20, 60), np.arange(0, 61, 2))
    whole = ranks_of_relevant(queries, candidates, wanted, np.arange(20))
    monkeypatch.setattr(ranking, "CELLS", 50)
    cut = ranks_of_relevant(queries, candidates, wanted, np.arange(20))
    assert cut.rank.tolist() == whole.rank.tolist()
    assert (np.diff(whole.rank.reshape(30, 2)) >= 0).all()


def test_only_the_asking_queries_are_read():
    queries = np.eye(3, dtype=np.float32)
    queries[1] = np.nan
    wanted = Relevant(np.array([0, 2]), np.array([0, 0]), np.array([0, 1, 2]))
    found = ranks_of_relevant(queries, np.eye(3, dtype=np.float32), wanted, np.arange(3))
    assert found.rank.tolist() == [1, 3]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_refused_and_never_ranked(bad: float):
    candidates = np.eye(3, dtype=np.float32)
    candidates[2, 0] = bad
    with pytest.raises(BadEmbeddingError, match=r"E201 .* of 2 queries"):
        ranks_of_relevant(np.ones((2, 3), np.float32), candidates, one_each([0, 1]), np.arange(3))


def test_among_equal_scores_the_larger_id_goes_first():
    same = np.ones((4, 2), np.float32)
    ids = np.array([2, 0, 3, 1])
    found = ranks_of_relevant(same, same, one_each([0, 1, 2, 3]), ids)
    assert found.rank.tolist() == [2, 4, 1, 3]
