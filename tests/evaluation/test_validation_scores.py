"""Scores of a validation pool in both directions."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.errors import BadDataError, BadEmbeddingError
from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts
from sentemb_core.evaluation.bootstrap import by_unit
from sentemb_core.evaluation.random_encoder import random_scorers
from sentemb_core.evaluation.validation_scores import (
    RetrievalScores,
    Scorers,
    rank_pool,
    read_hits,
    read_ranks,
    title_result,
    vector_scorers,
    write_scores,
)
from tests.evaluation.made import pool_of


def one_to_one(n: int) -> ValidationPool:
    return pool_of(list(range(n)), ["validation"] * n)


def scores_of(
    pool: ValidationPool, documents: np.ndarray, candidates: np.ndarray, split: str
) -> RetrievalScores:
    return rank_pool(pool, vector_scorers(documents, candidates), split).scores()


SHARED = pool_of([0, 1, 0, 2], ["validation", "validation", "gate", "test"])


def test_equal_vectors_rank_first():
    vectors = np.eye(6, dtype=np.float32)
    scores = scores_of(one_to_one(6), vectors, vectors, "validation")
    for direction in (scores.document_to_counterpart, scores.counterpart_to_document):
        assert direction.recall_at_1 == direction.mrr_at_10 == 1
        assert (direction.queries, direction.candidates) == (6, 6)


def test_queries_are_of_the_split_and_candidates_of_the_pool():
    documents = np.array([[1, 0], [0, 1], [1, 0], [-1, 0]], np.float32)
    candidates = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    scores = scores_of(SHARED, documents, candidates, "gate")
    assert (scores.split, scores.document_to_counterpart.queries) == ("gate", 1)
    assert scores.document_to_counterpart.candidates == 3
    assert scores.counterpart_to_document.candidates == 4


def test_shared_title_looks_once_for_all_its_documents():
    documents = np.array([[1, 0], [0, 1], [0.9, 0], [0.5, 0]], np.float32)
    candidates = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    ranks = rank_pool(SHARED, vector_scorers(documents, candidates), "validation")
    backwards = ranks.counterpart_to_document
    assert len(backwards) == 2  # titles 0 and 1
    assert backwards.relevant.tolist() == [2, 1]  # document 2, of the gate, has title 0 too
    assert backwards.rank.tolist() == [1, 2, 1]
    assert ranks.scores().counterpart_to_document.recall_at_1 == (0.5 + 1) / 2
    assert ranks.document_to_counterpart.rank.tolist() == [1, 1]


def test_shared_title_ties_by_its_first_document():
    flat = Scorers(lambda rows: np.zeros((len(rows), 2)), lambda rows: np.zeros((len(rows), 3)))
    ranks = rank_pool(pool_of([0, 1, 0], ["test"] * 3), flat, "test")
    assert ranks.document_to_counterpart.rank.tolist() == [2, 1, 2]


def test_constant_encoder_scores_as_chance():
    same = np.ones((40, 8), np.float32)
    scores = scores_of(one_to_one(40), same, same, "validation")
    for direction in (scores.document_to_counterpart, scores.counterpart_to_document):
        assert direction.recall_at_1 == pytest.approx(1 / 40)
        assert direction.recall_at_5 == pytest.approx(5 / 40)


def test_order_of_the_pool_does_not_matter():
    rng = np.random.default_rng(0)
    n = 30
    documents, candidates = (rng.integers(-1, 2, (n, 3)).astype(np.float32) for _ in range(2))
    straight = one_to_one(n)
    order = rng.permutation(n)
    moved = ValidationPool(
        kind="counterpart",
        query_document=straight.query_document[order],
        query_split=straight.query_split,
        query_candidate=np.arange(n),
        query_doc_id=[straight.query_doc_id[k] for k in order],
        candidate_text=straight.candidate_text,
        candidate_document=order,
    )
    assert scores_of(moved, documents[order], candidates[order], "validation") == scores_of(
        straight, documents, candidates, "validation"
    )


def test_part_of_the_pool_breaks_ties_as_the_whole():
    """Validation during training encodes the documents of one split only."""
    whole = pool_of([0, 1, 2, 3, 4, 5, 2, 6], [*["test", "validation"] * 4])
    part = whole.of_split("validation")
    same = np.ones((8, 4), np.float32)
    ranks = [
        rank_pool(one, vector_scorers(same[: len(one.query_doc_id)], same[:7]), "validation")
        for one in (whole, part)
    ]
    first, second = (one.document_to_counterpart.rank.tolist() for one in ranks)
    assert first == second


def test_nan_vectors_and_empty_splits_are_refused():
    vectors = np.eye(6, dtype=np.float32)
    with pytest.raises(BadEmbeddingError, match="6 of 6 "):
        scores_of(one_to_one(6), vectors * np.nan, vectors, "validation")
    with pytest.raises(BadDataError, match=r"gate split .*pool of 6 "):
        scores_of(one_to_one(6), vectors, vectors, "gate")


def test_bm25_finds_documents_by_their_words(titled):
    scorers = bm25_scorers(*pool_texts(titled.documents, titled.pool))
    scores = rank_pool(titled.pool, scorers, "validation").scores()
    assert scores.document_to_counterpart.recall_at_5 == 1
    assert scores.document_to_counterpart.candidates == 11  # two documents share a title


def test_bm25_ignores_stop_words():
    scorers = bm25_scorers(["the end of the tax"], ["The Of", "tax forms"])
    assert scorers.document_to_counterpart(np.arange(1))[0, 0] == 0
    assert scorers.document_to_counterpart(np.arange(1))[0, 1] > 0
    assert (scorers.counterpart_to_document(np.arange(2))[:, 0] > 0).tolist() == [False, True]


def test_bm25_without_common_words_scores_as_chance():
    strangers = bm25_scorers([f"only{k}" for k in range(40)], [f"other{k}" for k in range(40)])
    scores = rank_pool(one_to_one(40), strangers, "validation").scores()
    assert scores.document_to_counterpart.recall_at_5 == pytest.approx(5 / 40)


def test_random_scores_depend_on_the_seed_alone(titled):
    def ranks(seed: int) -> list[int]:
        scorers = random_scorers(titled.corpus, titled.pool, seed)
        found = [
            rank_pool(titled.pool, scorers, split).document_to_counterpart.rank.tolist()
            for split in ("validation", "gate", "test")
        ]
        return [rank for some in found for rank in some]

    assert ranks(1) == ranks(1)
    assert ranks(1) != ranks(2)


def test_title_task_has_the_hits_of_the_test_split(titled, tmp_path):
    write_scores(titled.pool, random_scorers(titled.corpus, titled.pool, 1), tmp_path)
    validation, test = (read_ranks(tmp_path, split) for split in ("validation", "test"))
    assert len(validation) != len(test)
    for k in (1, 5):
        found = title_result(tmp_path, f"R@{k}")
        own = titled.pool.query_candidate[titled.pool.queries("test")]
        assert found.units[:, 0].tolist() == pytest.approx(by_unit(1.0 * (test <= k), own).tolist())
        assert found.value == pytest.approx((test <= k).mean())


def test_hits_of_earlier_scores_count_documents(titled, tmp_path):
    write_scores(titled.pool, random_scorers(titled.corpus, titled.pool, 1), tmp_path)
    file = tmp_path / "ranks.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["counterpart"]), file)
    hits = read_hits(tmp_path, "test")
    assert hits.tolist() == (read_ranks(tmp_path, "test") <= 5).tolist()


def test_texts_of_halves_split_as_their_vectors(halved):
    queries, candidates = pool_texts(halved.documents, halved.pool)
    corpus = halved.corpus
    for place, document in enumerate(halved.pool.query_document):
        first, last = corpus.offsets[document], corpus.offsets[document + 1]
        whole = " ".join(corpus.texts(np.arange(first, last)))
        candidate = halved.pool.query_candidate[place]
        assert f"{queries[place]} {candidates[candidate]}" == whole
        assert queries[place].count(".") == (last - first + 1) // 2
