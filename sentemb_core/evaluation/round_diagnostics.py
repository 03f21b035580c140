"""Diagnostics of one round: what its annotation found, and how training changed the vectors."""

from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64
from threadpoolctl import threadpool_limits

from sentemb_core.annotation.clusters import Clusters, churn
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.graph import estimated
from sentemb_core.annotation.pairs import Pairs, read_report, turnover
from sentemb_core.annotation.relatedness import pairs_across
from sentemb_core.annotation.statistics import jaccard
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.evaluation.diagnostics import (
    BINS,
    Shape,
    alignment,
    directed,
    directions,
    shape_of,
    similarity_histogram,
)
from sentemb_core.types import Value

SAMPLE = 2_000
"""Pairs in a sample."""

SHOWN = 10
"""Number of best, and of worst, pairs in the report."""

COUNTED = (
    "clusters",
    "clusters_per_document",
    "pairs",
    "kept_share",
    "dropped_share",
    "adjacent_share",
    "lexical_overlap",
)
"""Numbers of `write_pairs` that are reported for a round."""

CHANGES = ("churn", "new_share", "gone_share", "related_share", "drift")
"""Numbers of `Diagnostics` that are reported for a round."""


class Similarities(Value):
    """Similarities of a round's positives and negatives under one encoder."""

    edges: list[float]
    positives: list[int]
    negatives: list[int]
    alignment: float
    shape: Shape


class Pair(Value):
    """One exported pair, as texts."""

    left: str
    right: str
    cosine: float
    jaccard: float


class Diagnostics(Value):
    """Diagnostics of one round for its report.

    before, after: under the annotator, and under the encoder that was trained on the pairs; None if
        vectors are not stored (then no pairs are ranked either).
    churn: adjusted Rand index to the clusters of the previous round.
    new_share, gone_share: pairs that were added and removed since (`annotation.pairs.turnover`).
    related_share: related sentences in a document, by the annotator's vectors (`related`).
    drift: share of pairs that float32 finds differently; None for float32 (`annotation.drift`).
    """

    churn: float | None
    new_share: float | None = None
    gone_share: float | None = None
    related_share: float | None = None
    drift: float | None = None
    before: Similarities | None
    after: Similarities | None
    cosine: list[float]
    jaccard: list[float]
    best: list[Pair]
    worst: list[Pair]


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


def write_diagnostics(result: Diagnostics, folder: Path) -> None:
    (folder / "diagnostics.json").write_text(result.model_dump_json(), encoding="utf-8")


def read_diagnostics(folder: Path) -> Diagnostics:
    """Read what `write_diagnostics` wrote."""
    return Diagnostics.model_validate_json((folder / "diagnostics.json").read_text("utf-8"))


def annotation_numbers(pairs: Path, result: Diagnostics) -> dict[str, int | float]:
    """Return the numbers of a round's annotation by name, without the missing ones.

    Alignment and shape are the trained encoder's. `pairs` is a folder that `write_pairs` wrote.
    """
    report = read_report(pairs)
    sizes = {int(size): count for size, count in report["cluster_sizes"].items()}
    sentences = sum(size * count for size, count in sizes.items())
    training_documents = report["documents"] - report["held_out_documents"]
    numbers = {name: report[name] for name in COUNTED} | {
        "cluster_size_mean": sentences / sum(sizes.values()),
        "cluster_size_largest": max(sizes),
        "giving_share": report["giving_documents"] / training_documents,
        **{name: getattr(result, name) for name in CHANGES},
    }
    if result.after:
        numbers |= {
            "alignment": result.after.alignment,
            "uniformity": result.after.shape.uniformity,
            "effective_rank": result.after.shape.effective_rank,
        }
    return {name: value for name, value in numbers.items() if value is not None}
