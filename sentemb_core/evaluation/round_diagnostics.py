"""What a round's annotation found, and what training on it made of the vectors."""

from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

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
"""Pairs looked at."""

SHOWN = 10
"""Best and worst pairs in the report."""

COUNTED = (
    "clusters",
    "clusters_per_document",
    "pairs",
    "kept_share",
    "dropped_share",
    "adjacent_share",
    "lexical_overlap",
)
"""What `write_pairs` tells of a round."""


class Similarities(Value):
    """How positives and negatives of a round lie under one encoder."""

    edges: list[float]
    positives: list[int]
    negatives: list[int]
    alignment: float
    shape: Shape


class Pair(Value):
    """One exported pair as texts."""

    left: str
    right: str
    cosine: float
    jaccard: float


class Diagnostics(Value):
    """Everything that a report tells of one round beside its scores.

    `before` is the annotator, `after` the encoder trained on what it found; none where vectors
    are not kept, and then the annotator ranks no pairs either. `churn` is the adjusted Rand index
    to the round before, `new_share` and `gone_share` are pairs that came and went since
    (`annotation.pairs.turnover`), `related_share` is what the annotator's vectors say of a
    sentence's pairs in its document (`idc.relatedness`), `drift` what share of the pairs float32
    finds otherwise (`annotation.drift`; none of float32 itself).
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


def diagnostics(
    corpus: TokenCorpus,
    pairs: Pairs,
    clusters: Clusters,
    previous: tuple[Clusters, Pairs] | None,
    before: Embeddings | None,
    after: Embeddings | None,
    seed: int,
) -> Diagnostics:
    """Look at `SAMPLE` of the round's pairs under both encoders.

    Args:
        corpus: Texts and documents.
        pairs: What the annotation exported.
        clusters: What it clustered.
        previous: Clusters and pairs of the round before.
        before: Sentence vectors of the annotator.
        after: Sentence vectors of the encoder that learnt the pairs.
        seed: Of the samples.
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(pairs), min(SAMPLE, len(pairs)), replace=False))
    positive = pairs.take(rows)
    negative = pairs_across(corpus.spans_of, len(corpus), SAMPLE, np.random.default_rng(seed))
    told = told_pairs(corpus, *positive, before) if before else []
    ranked = distinct(sorted(told, key=lambda pair: -pair.cosine))
    new, gone = turnover(corpus, pairs, previous[1]) if previous else (None, None)
    return Diagnostics(
        churn=churn(corpus, clusters, previous[0]) if previous else None,
        new_share=new,
        gone_share=gone,
        related_share=estimated(corpus, before, rng).share if before else None,
        before=similarities(before, positive, negative, seed) if before else None,
        after=similarities(after, positive, negative, seed) if after else None,
        cosine=[pair.cosine for pair in told],
        jaccard=[pair.jaccard for pair in told],
        best=ranked[:SHOWN],
        worst=distinct(sorted(told, key=lambda pair: pair.cosine))[:SHOWN],
    )


def distinct(pairs: list[Pair]) -> list[Pair]:
    """The first pair of every sentence: documents repeat each other, and a sentence its pairs."""
    seen: set[str] = set()
    kept: list[Pair] = []
    for pair in pairs:
        if seen.isdisjoint((pair.left, pair.right)):
            kept.append(pair)
            seen.update((pair.left, pair.right))
    return kept


Ends = tuple[Int64[np.ndarray, " _"], Int64[np.ndarray, " _"]]


def similarities(vectors: Embeddings, positive: Ends, negative: Ends, seed: int) -> Similarities:
    """Histograms, alignment and shape of one encoder's sentence vectors."""
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


def told_pairs(
    corpus: TokenCorpus,
    i: Int64[np.ndarray, " pairs"],
    j: Int64[np.ndarray, " pairs"],
    vectors: Embeddings,
) -> list[Pair]:
    """Sampled pairs with their cosine under the annotator and word overlap."""
    cosine = (unit_rows(vectors, i) * unit_rows(vectors, j)).sum(axis=1)
    texts = zip(corpus.texts(i), corpus.texts(j), cosine.tolist(), strict=True)
    return [
        Pair(left=left, right=right, cosine=value, jaccard=jaccard(left, right))
        for left, right, value in texts
    ]


def unit_rows(vectors: Embeddings, rows: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
    return directions(vectors.rows(rows))


def write_diagnostics(found: Diagnostics, folder: Path) -> None:
    (folder / "diagnostics.json").write_text(found.model_dump_json(), encoding="utf-8")


def read_diagnostics(folder: Path) -> Diagnostics:
    """What `write_diagnostics` wrote."""
    return Diagnostics.model_validate_json((folder / "diagnostics.json").read_text("utf-8"))


def annotation_numbers(pairs: Path, found: Diagnostics) -> dict[str, int | float]:
    """What a round tells of its annotation, one number a name; what nobody measured is left out.

    `pairs` is the folder of `write_pairs`. Alignment and shape are those of the trained encoder.
    """
    report = read_report(pairs)
    sizes = {int(size): count for size, count in report["cluster_sizes"].items()}
    sentences = sum(size * count for size, count in sizes.items())
    taught = report["documents"] - report["held_out_documents"]
    told = {name: report[name] for name in COUNTED} | {
        "cluster_size_mean": sentences / sum(sizes.values()),
        "cluster_size_largest": max(sizes),
        "giving_share": report["giving_documents"] / taught,
        "churn": found.churn,
        "new_share": found.new_share,
        "gone_share": found.gone_share,
        "related_share": found.related_share,
        "drift": found.drift,
    }
    if found.after:
        told |= {
            "alignment": found.after.alignment,
            "uniformity": found.after.shape.uniformity,
            "effective_rank": found.after.shape.effective_rank,
        }
    return {name: value for name, value in told.items() if value is not None}
