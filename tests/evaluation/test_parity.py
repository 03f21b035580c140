"""The same runs through sentence-transformers' evaluator, tie-free as it has no rule."""

import numpy as np
import pytest

from sentemb_core.evaluation import metrics
from sentemb_core.evaluation.ranking import Relevant, counted_ranks

DEPTHS = [1, 3, 10, 30]


@pytest.mark.slow
def test_tie_free_runs_score_as_in_sentence_transformers():
    """Whose MAP@k divides by the most relevant items that k places hold; trec's, by all of them."""
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,  # here, since it takes seconds to import
    )

    rng = np.random.default_rng(0)
    n, m = 1_000, 30
    scores = rng.permuted(np.tile(np.arange(m, dtype=np.float64), (n, 1)), axis=1)
    relevant = [rng.choice(m, rng.integers(1, 8), replace=False) for _ in range(n)]
    theirs = InformationRetrievalEvaluator(
        queries={str(q): "" for q in range(n)},
        corpus={str(d): "" for d in range(m)},
        relevant_docs={str(q): {str(d) for d in items} for q, items in enumerate(relevant)},
        mrr_at_k=DEPTHS,
        ndcg_at_k=DEPTHS,
        accuracy_at_k=DEPTHS,
        precision_recall_at_k=DEPTHS,
        map_at_k=DEPTHS,
    ).compute_metrics(
        [[{"corpus_id": str(d), "score": row[d]} for d in range(m)] for row in scores]
    )
    offsets = np.cumsum([0, *map(len, relevant)])
    wanted = Relevant(np.arange(n), np.concatenate(relevant), offsets)
    ours = counted_ranks(lambda rows: scores[rows], wanted, np.arange(m))
    for k in DEPTHS:
        for name, metric in (
            ("recall@k", metrics.recall),
            ("precision@k", metrics.precision),
            ("mrr@k", metrics.reciprocal_rank),
            ("ndcg@k", metrics.ndcg),
        ):
            assert metric(ours, k).mean() == pytest.approx(theirs[name][k], abs=1e-12), name
        capped = metrics.average_precision(ours, k) * ours.relevant / np.minimum(k, ours.relevant)
        assert capped.mean() == pytest.approx(theirs["map@k"][k], abs=1e-12)
