"""Diagnostics of one round: what its annotation found, and how training changed the vectors."""

import numpy as np
from jaxtyping import Float32, Int64
from threadpoolctl import threadpool_limits

from sentemb_core.annotation.clusters import Clusters, churn
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.graph import estimated
from sentemb_core.annotation.pairs import Pairs, turnover
from sentemb_core.annotation.relatedness import pairs_across
from sentemb_core.annotation.statistics import jaccard
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.evaluation.diagnostics import (
    BINS,
    alignment,
    directed,
    directions,
    shape_of,
    similarity_histogram,
)
from sentemb_core.evaluation.round_values import Diagnostics, Pair, Similarities

SAMPLE = 2_000
"""Pairs in a sample."""

SHOWN = 10
"""Number of best, and of worst, pairs in the report."""


@threadpool_limits.wrap(limits=1, user_api="blas")  # more threads cost .3 to 2 s and change bits
def diagnostics(
    corpus: TokenCorpus,
    pairs: Pairs,
    clusters: Clusters,
    previous: tuple[Clusters, Pairs] | None,
    before: Embeddings | None,
    after: Embeddings | None,
    seed: int,
) -> Diagnostics:
    """Return the diagnostics of `SAMPLE` of the round's pairs under both encoders.

    `before` has the sentence vectors of the annotator, `after` those of the encoder that was
    trained on the pairs. `previous` has the clusters and pairs of the previous round.
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(pairs), min(SAMPLE, len(pairs)), replace=False))
    positive = pairs.take(rows)
    negative = pairs_across(corpus.spans_of, len(corpus), SAMPLE, np.random.default_rng(seed))
    sampled = pairs_as_texts(corpus, *positive, before) if before else []
    ranked = distinct(sorted(sampled, key=lambda pair: -pair.cosine))
    new, gone = turnover(corpus, pairs, previous[1]) if previous else (None, None)
    return Diagnostics(
        churn=churn(corpus, clusters, previous[0]) if previous else None,
        new_share=new,
        gone_share=gone,
        related_share=estimated(corpus, before, rng).share if before else None,
        before=similarities(before, positive, negative, seed) if before else None,
        after=similarities(after, positive, negative, seed) if after else None,
        cosine=[pair.cosine for pair in sampled],
        jaccard=[pair.jaccard for pair in sampled],
        best=ranked[:SHOWN],
        worst=distinct(sorted(sampled, key=lambda pair: pair.cosine))[:SHOWN],
    )


def distinct(pairs: list[Pair]) -> list[Pair]:
    """Return the first pair of every sentence; sentences and their pairs repeat in a corpus."""
    shown: set[str] = set()
    kept: list[Pair] = []
    for pair in pairs:
        if shown.isdisjoint((pair.left, pair.right)):
            kept.append(pair)
            shown.update((pair.left, pair.right))
    return kept


Ends = tuple[Int64[np.ndarray, " _"], Int64[np.ndarray, " _"]]


def similarities(vectors: Embeddings, positive: Ends, negative: Ends, seed: int) -> Similarities:
    """Return histograms, alignment and shape of one encoder's sentence vectors."""
    near = directed(*(unit_rows(vectors, ends) for ends in positive))
    far = directed(*(unit_rows(vectors, ends) for ends in negative))
    some = np.random.default_rng(seed).choice(vectors.n, min(SAMPLE, vectors.n), replace=False)
    return Similarities(
        edges=BINS.tolist(),
        positives=similarity_histogram(*near).tolist(),
        negatives=similarity_histogram(*far).tolist(),
        alignment=alignment(*near),
        shape=shape_of(vectors.rows(np.sort(some)), seed),
    )


def pairs_as_texts(
    corpus: TokenCorpus,
    i: Int64[np.ndarray, " pairs"],
    j: Int64[np.ndarray, " pairs"],
    vectors: Embeddings,
) -> list[Pair]:
    """Return pairs as texts, with their cosine under the annotator and their word overlap."""
    cosine = (unit_rows(vectors, i) * unit_rows(vectors, j)).sum(axis=1)
    texts = zip(corpus.texts(i), corpus.texts(j), cosine.tolist(), strict=True)
    return [
        Pair(left=left, right=right, cosine=value, jaccard=jaccard(left, right))
        for left, right, value in texts
    ]


def unit_rows(vectors: Embeddings, rows: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
    return directions(vectors.rows(rows))
