"""Every metric against its definition over a list sorted as trec_eval sorts it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.evaluation import metrics
from sentemb_core.evaluation.metrics import Ranks
from sentemb_core.evaluation.ranking import Relevant, counted_ranks
from tests.examples import at_least

METRICS = ["recall", "capped_recall", "precision", "reciprocal_rank", "average_precision", "ndcg"]


def ranks(*lists: list[int]) -> Ranks:
    return Ranks(np.concatenate([np.array(x) for x in lists]), np.cumsum([0, *map(len, lists)]))


def oracle(metric: str, ranking: list[int], relevant: set[int], k: int) -> float:
    """The metric as trec_eval's manual has it, over ids in ranked order."""
    hits = [item in relevant for item in ranking[:k]]
    if metric == "recall":
        return sum(hits) / len(relevant)
    if metric == "capped_recall":
        return sum(hits) / min(k, len(relevant))
    if metric == "precision":
        return sum(hits) / k
    if metric == "reciprocal_rank":
        return next((1 / place for place, hit in enumerate(hits, 1) if hit), 0.0)
    if metric == "average_precision":
        found = [sum(hits[:place]) / place for place, hit in enumerate(hits, 1) if hit]
        return sum(found) / len(relevant)
    gains = sum(1 / math.log2(place + 1) for place, hit in enumerate(hits, 1) if hit)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(relevant)) + 1))
    return gains / ideal


@st.composite
def runs(draw: st.DrawFn) -> tuple[np.ndarray, list[list[int]]]:
    """Scores with many ties, and one to all items relevant to each query."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    scores = draw(st.lists(st.integers(0, 3), min_size=n * m, max_size=n * m))
    relevant = [
        sorted(draw(st.sets(st.integers(0, m - 1), min_size=1, max_size=m))) for _ in range(n)
    ]
    return np.array(scores, dtype=np.float64).reshape(n, m), relevant


def ranked(scores: np.ndarray, relevant: list[list[int]], ids: np.ndarray | None = None) -> Ranks:
    wanted = Relevant(
        np.arange(len(scores)),
        np.array([item for items in relevant for item in items]),
        np.cumsum([0, *map(len, relevant)]),
    )
    return counted_ranks(
        lambda rows: scores[rows], wanted, np.arange(scores.shape[1]) if ids is None else ids
    )


@at_least(150)
@given(run=runs(), k=st.integers(1, 14))
def test_metrics_equal_their_definition_over_a_sorted_list(
    run: tuple[np.ndarray, list[list[int]]], k: int
):
    scores, relevant = run
    found = ranked(scores, relevant)
    for metric in METRICS:
        expected = [
            oracle(metric, sorted(range(len(row)), key=lambda j: (-row[j], -j)), set(items), k)
            for row, items in zip(scores.tolist(), relevant, strict=True)
        ]
        assert getattr(metrics, metric)(found, k) == pytest.approx(expected, abs=1e-12), metric


@given(run=runs(), k=st.integers(1, 14))
def test_recall_grows_with_k_and_with_capping(run: tuple[np.ndarray, list[list[int]]], k: int):
    found = ranked(*run)
    assert (metrics.recall(found, k + 1) >= metrics.recall(found, k)).all()
    assert (metrics.capped_recall(found, k) >= metrics.recall(found, k)).all()


@given(run=runs(), seed=st.integers(0, 2**32 - 1))
def test_order_of_candidates_does_not_matter(run: tuple[np.ndarray, list[list[int]]], seed: int):
    scores, relevant = run
    order = np.random.default_rng(seed).permutation(scores.shape[1])
    place = np.argsort(order)
    moved = ranked(scores[:, order], [[int(place[j]) for j in items] for items in relevant], order)
    assert moved.rank.tolist() == ranked(scores, relevant).rank.tolist()


@given(run=runs())
def test_monotone_scores_keep_the_ranks(run: tuple[np.ndarray, list[list[int]]]):
    scores, relevant = run
    bent = np.exp(scores) * 3 - 7
    assert ranked(bent, relevant).rank.tolist() == ranked(scores, relevant).rank.tolist()


def test_erratum_e30_has_its_hand_values():
    """Hits r = [3, 10, 2] among the first 10, of g = [5, 20, 2] relevant (erratum E30)."""
    found = ranks([1, 2, 3, 11, 12], [*range(1, 11), *range(11, 21)], [4, 9])
    assert metrics.recall(found, 10).mean() == pytest.approx(0.7)
    assert metrics.precision(found, 10).mean() == pytest.approx(0.5)
    assert metrics.capped_recall(found, 10).mean() == pytest.approx(0.8667, abs=5e-5)


def test_constant_scores_give_chance():
    """A stable sort would give MRR@10 = 1.0 if relevant items come first (mteb 5092)."""
    scores = np.zeros((1, 50))
    first = ranked(scores, [[0, 1, 2]])
    assert first.rank.tolist() == [48, 49, 50]
    everywhere = ranked(np.zeros((50, 50)), [[item] for item in range(50)])
    assert metrics.recall(everywhere, 5).mean() == 5 / 50
    assert metrics.recall(everywhere, 1).mean() == 1 / 50


def test_random_scores_get_chance():
    scores = np.random.default_rng(0).random((4_000, 40))
    found = ranked(scores, [[query % 40] for query in range(4_000)])
    assert metrics.recall(found, 5).mean() == pytest.approx(5 / 40, abs=0.02)
    expected = sum(1 / place for place in range(1, 11)) / 40
    assert metrics.reciprocal_rank(found, 10).mean() == pytest.approx(expected, abs=0.01)
