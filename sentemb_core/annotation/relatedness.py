"""How many pairs of sentences of one document are related, told without labels.

Sentences of different documents are unrelated; how alike an encoder finds those is the empirical
null of a test, and 1 - the local false discovery rate (Efron 2004) of a pair of one document is
the probability that it is related. Documents that mix topics have a small share of such pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.optimize import isotonic_regression

from sentemb_core.annotation.pair_arrays import Chunk
from sentemb_core.documents import Spans, spans_in

BINS = 60
"""Of the similarities, each with as many of them. Checked on sessions of known topics: of the most
similar tenth of the pairs .76 are told to be related, and .73 are."""

PROBABLE = 0.8
"""Probability from which on a pair counts as related: nine in ten are (docs/results)."""

DRAWS = 20
"""Pairs drawn at most for each one that is wanted."""

CHUNK = 1 << 14
"""Pairs drawn at once."""


SpansOf = Callable[[Int64[np.ndarray, " n"]], Spans]
"""Of the document in which each of these sentences lies."""


@dataclass(frozen=True)
class Relatedness:
    """The probability that two sentences of one document are related, by their similarity.

    `posterior[b]` holds between `bounds[b - 1]` and `bounds[b]`, without end on the outer sides; it
    never falls with the similarity.
    """

    bounds: Float64[np.ndarray, " bounds"]
    posterior: Float64[np.ndarray, " bounds+1"]
    share: float | None
    """Of a sentence's pairs in its document, nearer ones aside, those that are related; none where
    there is no such pair, or no stranger to compare with."""

    def of(self, similarity: Float32[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
        return self.posterior[np.searchsorted(self.bounds, similarity, side="right")]


def relatedness(
    within: Float32[np.ndarray, " pairs"], across: Float32[np.ndarray, " others"]
) -> Relatedness:
    """Estimated from similarities within documents and across documents.

    Of the pairs within, twice those below the median across are unrelated (Storey 2002, lambda .5).
    Where either side has no pair, nothing is told: no share, and nobody is probably related.
    """
    if not (len(within) and len(across)):
        return Relatedness(np.empty(0), np.zeros(1), None)
    unrelated = min(1.0, 2 * float((within < np.median(across)).mean()))
    bounds = np.quantile(np.concatenate([within, across]), np.arange(1, BINS) / BINS)
    inside, outside = (_shares(values, bounds) for values in (within, across))
    ratio = np.divide(outside, inside, out=np.ones(BINS), where=inside > 0)
    rising: Float64[np.ndarray, " bins"] = isotonic_regression(1 - unrelated * ratio).x
    return Relatedness(bounds, np.clip(rising, 0, 1), 1 - unrelated)


def distant_pairs(
    spans_of: SpansOf,
    sentences: int,
    count: int,
    rng: np.random.Generator,
    min_distance: int = 2,
) -> Chunk:
    """Random pairs of one document at least `min_distance` apart: `count` draws less the nearer.

    An encoder that learnt from neighbours finds those alike whether they are related or not.
    """
    i = rng.integers(sentences, size=count)
    first, last = spans_of(i)
    j = first + rng.integers(last - first)
    distant: Bool[np.ndarray, " pairs"] = np.abs(i - j) >= min_distance
    return i[distant], j[distant]


def strangers(spans_of: SpansOf, sentences: int, count: int, rng: np.random.Generator) -> Chunk:
    """Random pairs of sentences of different documents: `count` draws less those of one."""
    i, j = rng.integers(sentences, size=(2, count))
    apart = spans_of(i)[0] != spans_of(j)[0]
    return i[apart], j[apart]


def related_pairs(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    told: Relatedness,
    count: int,
    rng: np.random.Generator,
    min_distance: int = 2,
) -> Chunk:
    """Random pairs (i < j) of `distant_pairs` that are probably related.

    At most `count`; fewer where `DRAWS` draws for each do not find them. `offsets` as in
    `similarity`.
    """
    first, found = int(offsets[0]), np.zeros((2, 0), np.int64)
    spans_of = partial(spans_in, offsets - first)
    for start in range(0, DRAWS * count, CHUNK):
        if found.shape[1] >= count:
            break
        draws = min(CHUNK, DRAWS * count - start)
        i, j = distant_pairs(spans_of, len(vectors), draws, rng, min_distance)
        kept = told.of(np.einsum("nd,nd->n", vectors[i], vectors[j])) >= PROBABLE
        found = np.append(found, np.sort([i[kept], j[kept]], axis=0), axis=1)
    return found[0, :count] + first, found[1, :count] + first


def _shares(
    values: Float32[np.ndarray, " n"], bounds: Float64[np.ndarray, " bounds"]
) -> Float64[np.ndarray, " bins"]:
    places = np.searchsorted(bounds, values, side="right")
    return np.bincount(places, minlength=BINS) / max(len(values), 1)
