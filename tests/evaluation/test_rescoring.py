"""Rescoring and fusion: the limits of alpha, and its choice on the validation split."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float

from sentemb_core.evaluation.ranking import ScoreRows
from sentemb_core.evaluation.rescoring import (
    alpha_sweep,
    best_alpha,
    fused,
    rescored,
    rescored_scorers,
)
from sentemb_core.evaluation.validation_scores import Scorers, rank_pool
from tests.evaluation.made import pool_of


def given_scores(table: Float[np.ndarray, "queries texts"]) -> ScoreRows:
    return lambda rows: table[rows]


def tables(seed: int, texts: int) -> tuple[np.ndarray, np.ndarray]:
    """BM25-like scores with many zeros and ties, and cosines without."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, (3, texts)) * 2.5, rng.uniform(-1, 1, (3, texts)).astype(np.float32)


def order(scores: np.ndarray) -> list[list[int]]:
    """Texts best first, the larger index first among equals."""
    return [sorted(range(len(row)), key=lambda j: (-row[j], -j)) for row in scores]


DRAWN = given(seed=st.integers(0, 2**32 - 1), texts=st.integers(1, 30), depth=st.integers(1, 35))


@DRAWN
def test_alpha_0_keeps_bm25s_order(seed: int, texts: int, depth: int):
    words, vectors = tables(seed, texts)
    scores = rescored(given_scores(words), given_scores(vectors), 0.0, depth)(np.arange(3))
    assert order(scores) == order(words)
    assert np.isfinite(scores).all()


@DRAWN
def test_large_alpha_orders_by_cosine(seed: int, texts: int, depth: int):
    words, vectors = tables(seed, texts)
    scores = rescored(given_scores(words), given_scores(vectors), 1e9, depth)(np.arange(3))
    for row, (first, cosines) in enumerate(zip(words, vectors, strict=True)):
        last = sorted(first, reverse=True)[:depth][-1]
        found = [j for j in range(texts) if first[j] >= last and first[j] > 0]
        left = [j for j in order(words)[row] if j not in found]
        assert order(scores)[row] == sorted(found, key=lambda j: -cosines[j]) + left


def test_scores_are_the_weighted_sum():
    words, vectors = np.array([[9.0, 4.0, 1.0, 0.0]]), np.array([[0.1, 0.9, 0.2, 1.0]], np.float32)
    scores = rescored(given_scores(words), given_scores(vectors), 10.0, 2)(np.arange(1))[0]
    assert scores[:2] == pytest.approx([10.0, 13.0])
    assert scores[3] < scores[2] < 10


@given(seed=st.integers(0, 2**32 - 1), texts=st.integers(1, 30))
def test_fusion_equals_its_definition_with_ties(seed: int, texts: int):
    words, vectors = tables(seed, texts)
    scores = fused(given_scores(words), given_scores(vectors))(np.arange(3))
    for row in range(3):
        ranks = [
            [1 + sum(other > one for other in table[row]) for one in table[row]]
            for table in (words, vectors)
        ]
        expected = [1 / (60 + a) + 1 / (60 + b) for a, b in zip(*ranks, strict=True)]
        assert scores[row] == pytest.approx(expected, rel=1e-12)


def both_ways(table: np.ndarray) -> Scorers:
    return Scorers(given_scores(table), given_scores(table.T))


def test_validation_split_chooses_the_smallest_best_alpha():
    """BM25 is right on the test half and vectors on the validation half."""
    n = 20
    halves = np.arange(n) < n // 2
    known = np.eye(n) * 5 + np.roll(np.eye(n), 1, axis=1) + 1.0
    words = np.where(halves[:, None], known[::-1], known)
    vectors = np.where(halves[:, None], np.eye(n), -np.eye(n))
    splits = ["validation"] * (n // 2) + ["test"] * (n // 2)
    sweep = alpha_sweep(
        pool_of(list(range(n)), splits), both_ways(words), both_ways(vectors), (0.0, 10.0, 1000.0)
    )
    assert {scores.split for scores in sweep.values()} == {"validation"}
    assert sweep[10.0].document_to_counterpart.recall_at_1 == 1
    assert best_alpha(sweep) == 10.0


def fused_both_ways(words: Scorers, vectors: Scorers) -> Scorers:
    return Scorers(
        fused(words.document_to_counterpart, vectors.document_to_counterpart),
        fused(words.counterpart_to_document, vectors.counterpart_to_document),
    )


@pytest.mark.parametrize(
    "together", [fused_both_ways, partial(rescored_scorers, alpha=3.0)], ids=["fused", "rescored"]
)
def test_system_with_itself_keeps_all_ranks(together):
    scorers = both_ways(np.random.default_rng(0).normal(size=(12, 12)))
    one_to_one = pool_of(list(range(12)), ["test"] * 12)
    alone = rank_pool(one_to_one, scorers, "test").scores()
    assert rank_pool(one_to_one, together(scorers, scorers), "test").scores() == alone
