"""The semantic part: one vector per text, and the vectors of its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.ranking import ScoreRows, inner_products, rows_of

CELLS = 1 << 24
"""Scores of sentences in memory at once: 64 MB."""


@dataclass(frozen=True)
class Sides:
    """Vectors of texts on one side of a search, all of length 1 (or 0: no known token).

    Attributes:
        vectors: One vector per text.
        sentences: The vectors of the sentences of all texts.
        starts: First sentence of each text and, last, the number of sentences.
    """

    vectors: Float32[np.ndarray, "texts dim"]
    sentences: Float32[np.ndarray, "sentences dim"]
    starts: Int64[np.ndarray, " bounds"]


def side_of(
    sentences: Float32[np.ndarray, "sentences dim"], starts: Int64[np.ndarray, " bounds"]
) -> Sides:
    """Return texts whose vectors are the mean directions of their sentences."""
    sums = np.add.reduceat(sentences, starts[:-1], axis=0, dtype=np.float64)
    means = sums / np.diff(starts)[:, None]
    return Sides(directions(means.astype(np.float32)), sentences, starts)


def with_whole_texts(side: Sides, whole: Float32[np.ndarray, "texts dim"]) -> Sides:
    """Return texts whose vectors are the mean direction of `side.vectors` and of `whole`."""
    return replace(side, vectors=directions(side.vectors + whole))


def joined(sides: Sequence[tuple[float, Sides]]) -> Sides:
    """Return the vectors of several encoders as one: each of length sqrt(its share of weights)."""
    return Sides(
        joined_vectors([(weight, side.vectors) for weight, side in sides]),
        joined_vectors([(weight, side.sentences) for weight, side in sides]),
        sides[0][1].starts,
    )


def joined_vectors(
    parts: Sequence[tuple[float, Float32[np.ndarray, "texts _"]]],
) -> Float32[np.ndarray, "texts dim"]:
    """Return the vectors side by side, each of length sqrt(its share of weights)."""
    total = sum(weight for weight, _ in parts)
    scaled = [np.float32((weight / total) ** 0.5) * vectors for weight, vectors in parts]
    return np.concatenate(scaled, axis=1)


def text_scores(texts: Sides, documents: Sides, best_sentence: float) -> ScoreRows:
    """Return the semantic score of every document for the texts at some places."""
    whole = inner_products(texts.vectors, documents.vectors)
    if not best_sentence:
        return whole
    return lambda rows: (
        whole(rows) + best_sentence * _best_sentences(texts.vectors[rows], documents)
    )


def document_scores(documents: Sides, texts: Sides, best_sentence: float) -> ScoreRows:
    """Return the semantic score of every text for the documents at some places."""
    whole = inner_products(documents.vectors, texts.vectors)
    if not best_sentence:
        return whole

    def scores(rows: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n texts"]:
        return whole(rows) + best_sentence * _best_sentences(texts.vectors, _of(documents, rows)).T

    return scores


def _of(side: Sides, rows: Int64[np.ndarray, " n"]) -> Sides:
    places, starts = rows_of(side.starts, rows)
    return Sides(side.vectors[rows], side.sentences[places], starts)


def _best_sentences(
    queries: Float32[np.ndarray, "n dim"], documents: Sides
) -> Float32[np.ndarray, "n documents"]:
    """Return the cosine of each query with the nearest sentence of each document."""
    best = np.empty((len(queries), len(documents.vectors)), np.float32)
    first = 0
    while first < len(documents.vectors):
        room = documents.starts[first] + max(CELLS // max(len(queries), 1), 1)
        end = max(first + 1, int(np.searchsorted(documents.starts, room, side="right")) - 1)
        rows = slice(documents.starts[first], documents.starts[end])
        starts = documents.starts[first:end] - documents.starts[first]
        cosines = documents.sentences[rows] @ queries.T
        best[:, first:end] = np.maximum.reduceat(cosines, starts, axis=0).T
        first = end
    return best
