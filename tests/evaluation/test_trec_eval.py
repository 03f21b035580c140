"""The same runs through trec_eval and sentence-transformers; hand values of mteb and others.

A run here goes the whole way: a BEIR folder on disk, a `Collection`, ranks, metrics.
"""

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from sentemb_core.evaluation import metrics
from sentemb_core.evaluation.collection_scores import MEASURES, result_of
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.metrics import Ranks
from sentemb_core.evaluation.ranking import Relevant, counted_ranks, without
from tests.evaluation.made import Run, judged_run

DEPTHS = (1, 2, 3, 5, 10, 20, 100, 1000)
TREC_NAMES = {
    "recall": metrics.recall,
    "P": metrics.precision,
    "map_cut": metrics.average_precision,
    "ndcg_cut": metrics.ndcg,
}
RUNS = 1_000
POOLS = 20

Judged = dict[str, dict[str, int]]


def scores_of(collection: Collection, run: Run) -> np.ndarray:
    return np.array(
        [[run[q][d] for d in collection.document_ids] for q in collection.query_ids], np.float64
    )


def ranks_of(collection: Collection, run: Run) -> Ranks:
    table = scores_of(collection, run)
    by_id = np.argsort(np.argsort(collection.document_ids))
    scores = without(lambda rows: table[rows], collection.hidden)
    return counted_ranks(scores, collection.relevant, by_id)


def drawn_run(rng: np.random.Generator, queries: int) -> tuple[Run, Judged]:
    """Few levels of scores, so that most tie; ids whose order as text is not that as numbers.

    A query's own document may be in the pool, and may even be relevant to it; to some queries
    nothing is, whatever was judged.
    """
    count = int(rng.integers(2, 60))
    documents = [f"d{k}" for k in rng.permutation(3 * count)[:count]] + ["q0", "q1"]
    levels = int(rng.integers(1, 8))
    run: dict[str, dict[str, float]] = {}
    judgements: Judged = {}
    for query in (f"q{k}" for k in range(queries)):
        scores = rng.integers(0, levels, len(documents)) / 4
        run[query] = dict(zip(documents, scores.tolist(), strict=True))
        judged = rng.choice(documents, rng.integers(1, len(documents) + 1), replace=False)
        grades = rng.integers(-1, 4, len(judged))
        judgements[query] = dict(zip(judged.tolist(), grades.tolist(), strict=True))
    return run, judgements


def first(run: Run, k: int) -> dict[str, dict[str, float]]:
    """The k best of each query, by (score, id) descending."""
    return {
        query: dict(sorted(scores.items(), key=lambda one: (one[1], one[0]), reverse=True)[:k])
        for query, scores in run.items()
    }


def trec_eval(run: Run, judgements: Judged, queries: list[str]) -> dict[tuple[str, int], list]:
    wanted = {f"{name}.{','.join(map(str, DEPTHS))}" for name in TREC_NAMES}
    found = pytrec_eval.RelevanceEvaluator(judgements, wanted).evaluate(run)
    values = {
        (name, k): [found[query][f"{name}_{k}"] for query in queries]
        for name in TREC_NAMES
        for k in DEPTHS
    }
    reciprocal = pytrec_eval.RelevanceEvaluator(judgements, {"recip_rank"})
    for k in DEPTHS:
        cut = reciprocal.evaluate(first(run, k))
        values["recip_rank", k] = [cut[query]["recip_rank"] for query in queries]
    return values


@pytest.mark.parametrize("hide_own", [False, True])
def test_thousand_runs_with_ties_equal_trec_eval(tmp_path: Path, hide_own: bool):
    rng = np.random.default_rng(0)
    worst, ties = 0.0, 0
    for pool in range(POOLS):
        run, judgements = drawn_run(rng, RUNS // POOLS)
        collection = judged_run(tmp_path / f"{pool}", run, judgements, hide_own=hide_own)
        ours = ranks_of(collection, run)
        left = {
            q: {d: s for d, s in scores.items() if not (hide_own and d == q)}
            for q, scores in run.items()
        }
        answered = [collection.query_ids[k] for k in collection.relevant.query]
        theirs = trec_eval(left, judgements, answered)
        ties += sum(len({*scores.values()}) < len(scores) for scores in run.values())
        for k in DEPTHS:
            for name, metric in (TREC_NAMES | {"recip_rank": metrics.reciprocal_rank}).items():
                worst = max(worst, np.abs(metric(ours, k) - theirs[name, k]).max())
    assert ties > 0.9 * RUNS
    assert worst <= 1e-12


def test_result_has_the_means_of_trec_eval(tmp_path: Path):
    run, judgements = drawn_run(np.random.default_rng(1), 40)
    collection = judged_run(tmp_path / "set", run, judgements)
    table = scores_of(collection, run)
    result = result_of(collection, lambda rows: table[rows])
    theirs = trec_eval(run, judgements, list(run))
    assert 0 < len(collection.relevant.query) < len(run) == len(result.units)
    names = {"nDCG": "ndcg_cut", "MAP": "map_cut", "MRR": "recip_rank", "P": "P", "R": "recall"}
    for measure in {*MEASURES} - {"R_cap@10"}:
        name, depth = measure.split("@")
        expected = np.mean(theirs[names[name], int(depth)])
        assert result.measures[measure] == pytest.approx(expected, abs=1e-12), measure
    assert result.units[:, 0] == pytest.approx(theirs["ndcg_cut", 10], abs=1e-12)
    assert result.value == pytest.approx(result.units.mean(), abs=1e-12)


MTEB_JUDGED = {"0": {"0": 1, "1": 1}, "1": {"1": 1}}
MTEB_RUN = {"0": {"0": 1.0, "1": 0.9, "2": 0.8}, "1": {"0": 0.0, "1": 1.0, "2": 0.0}}


@pytest.mark.parametrize(
    ("hide_own", "metric", "expected"),
    [
        (False, metrics.ndcg, (1, 1, 1)),
        (False, metrics.average_precision, (0.75, 1, 1)),
        (False, metrics.recall, (0.75, 1, 1)),
        (False, metrics.precision, (1, 0.75, 0.5)),
        (True, metrics.ndcg, (0.5, 0.30657, 0.30657)),
        (True, metrics.average_precision, (0.25, 0.25, 0.25)),
        (True, metrics.recall, (0.25, 0.25, 0.25)),
        (True, metrics.precision, (0.5, 0.25, 0.16667)),
    ],
)
def test_mteb_hand_values_with_and_without_own_documents(
    tmp_path: Path, hide_own: bool, metric, expected: tuple[float, float, float]
):
    """Values of mteb's test_RetrievalEvaluator.

    Without themselves query 0 has one of two hits left and query 1 none, at no depth: a hidden
    document is not the last of the pool, it is not in it.
    """
    collection = judged_run(tmp_path / "set", MTEB_RUN, MTEB_JUDGED, hide_own=hide_own)
    ours = ranks_of(collection, MTEB_RUN)
    for k, value in zip((1, 2, 3), expected, strict=True):
        assert metric(ours, k).mean() == pytest.approx(value, abs=5e-6), k


def test_sentence_transformers_hand_values(tmp_path: Path):
    """Its mock encoder: six of fifteen hits, and one of two relevant documents first.

    The query for vehicles meets a document on a car, which is a vehicle too, at cosine 1 / sqrt 2.
    """
    half = 2**-0.5
    near = dict.fromkeys(zip("0123", "0123", strict=True), 1.0)
    near |= {("3", "4"): half, ("4", "4"): half}
    run = {q: {d: near.get((q, d), 0.0) for d in "01234"} for q in "01234"}
    judgements = {q: {q: 1} for q in "01234"}
    judgements["3"]["4"] = 1
    ours = ranks_of(judged_run(tmp_path / "set", run, judgements), run)
    assert metrics.precision(ours, 3).mean() == pytest.approx(0.4)
    assert metrics.recall(ours, 1).mean() == pytest.approx(0.9)
    for metric in (metrics.ndcg, metrics.reciprocal_rank, metrics.recall):
        assert metric(ours, 3).mean() == pytest.approx(1.0)


def test_smallest_of_three_tied_ids_is_third(tmp_path: Path):
    run = {"q": {"a": 0.5, "b": 0.5, "c": 0.5}}
    ours = ranks_of(judged_run(tmp_path / "set", run, {"q": {"a": 1}}), run)
    assert metrics.reciprocal_rank(ours, 10).tolist() == [1 / 3]


def test_ndcg_gain_is_the_grade(tmp_path: Path):
    """By hand: 1 at place 1 and 3 at place 2, where 3 should be first."""
    run = {"q": {"a": 0.9, "b": 0.8, "c": 0.1}}
    ours = ranks_of(judged_run(tmp_path / "set", run, {"q": {"a": 1, "b": 3, "c": 0}}), run)
    second = 1 / np.log2(3)
    assert metrics.ndcg(ours, 10) == pytest.approx([(1 + 3 * second) / (3 + second)])
    assert metrics.ndcg(ours, 1) == pytest.approx([1 / 3])
    assert metrics.precision(ours, 1).tolist() == [1]


@pytest.mark.slow
def test_tie_free_runs_score_as_in_sentence_transformers():
    """Whose MAP@k divides by the most relevant items that k places hold; trec's, by all of them."""
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,  # here, since it takes seconds to import
    )

    depths = [1, 3, 10, 30]
    rng = np.random.default_rng(0)
    n, m = 1_000, 30
    scores = rng.permuted(np.tile(np.arange(m, dtype=np.float64), (n, 1)), axis=1)
    relevant = [rng.choice(m, rng.integers(1, 8), replace=False) for _ in range(n)]
    theirs = InformationRetrievalEvaluator(
        queries={str(q): "" for q in range(n)},
        corpus={str(d): "" for d in range(m)},
        relevant_docs={str(q): {str(d) for d in items} for q, items in enumerate(relevant)},
        mrr_at_k=depths,
        ndcg_at_k=depths,
        accuracy_at_k=depths,
        precision_recall_at_k=depths,
        map_at_k=depths,
    ).compute_metrics(
        [[{"corpus_id": str(d), "score": row[d]} for d in range(m)] for row in scores]
    )
    offsets = np.cumsum([0, *map(len, relevant)])
    wanted = Relevant(np.arange(n), np.concatenate(relevant), offsets)
    ours = counted_ranks(lambda rows: scores[rows], wanted, np.arange(m))
    for k in depths:
        for name, metric in (
            ("recall@k", metrics.recall),
            ("precision@k", metrics.precision),
            ("mrr@k", metrics.reciprocal_rank),
            ("ndcg@k", metrics.ndcg),
        ):
            assert metric(ours, k).mean() == pytest.approx(theirs[name][k], abs=1e-12), name
        capped = metrics.average_precision(ours, k) * ours.relevant / np.minimum(k, ours.relevant)
        assert capped.mean() == pytest.approx(theirs["map@k"][k], abs=1e-12)
