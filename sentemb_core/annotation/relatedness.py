"""The probability that two sentences of a document are related, estimated without labels.

Sentences of different documents are unrelated, so their similarities are the empirical null
distribution. The probability of a pair of one document is 1 - its local false discovery rate
(Efron 2004). In documents that mix topics, a small share of the pairs is related.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.optimize import isotonic_regression

from sentemb_core.annotation.pair_arrays import Chunk
from sentemb_core.documents import Spans, spans_in
from sentemb_core.types import Json

BINS = 60
"""Bins of equal counts. On sessions of known topics, the estimate for the most similar tenth of the
pairs is .76, and .73 of them are related."""

PROBABLE = 0.8
"""Least probability of a pair that counts as related: nine in ten of them are (docs/results)."""

DRAWS = 20
"""Most draws for each requested pair."""

CHUNK = 1 << 14
"""Pairs drawn at once."""


SpansOf = Callable[[Int64[np.ndarray, " n"]], Spans]
"""Sentences -> first and last sentence of the document of each."""


@dataclass(frozen=True)
class Relatedness:
    """The probability that two sentences of one document are related, by their similarity.

    `posterior[b]` holds between `bounds[b - 1]` and `bounds[b]`; outer bins are unbounded. It
    never falls with the similarity.
    """

    bounds: Float64[np.ndarray, " bounds"]
    posterior: Float64[np.ndarray, " bounds+1"]
    share: float | None
    """Share of the distant pairs of a document that are related. None without such a pair, or
    without a pair across documents to compare with."""

    def of(self, similarity: Float32[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
        return self.posterior[np.searchsorted(self.bounds, similarity, side="right")]

    def as_json(self) -> Json:
        return {
            "bounds": self.bounds.tolist(),
            "posterior": self.posterior.tolist(),
            "share": self.share,
        }

    @classmethod
    def from_json(cls, stored: Json) -> "Relatedness":
        return cls(np.array(stored["bounds"]), np.array(stored["posterior"]), stored["share"])


def relatedness(
    within: Float32[np.ndarray, " pairs"], across: Float32[np.ndarray, " others"]
) -> Relatedness:
    """Estimate from similarities within documents and across documents.

    The share of pairs within that lie below the median across, over the same share of the pairs
    across, is unrelated (Storey 2002, lambda .5). Half of the ties with the median count as below.
    If either side has no pair, the share is None and no pair is probably related.
    """
    if not (len(within) and len(across)):
        return Relatedness(np.empty(0), np.zeros(1), None)
    median = np.median(across)
    unrelated = min(1.0, _share_below(within, median) / _share_below(across, median))
    bounds = np.quantile(np.concatenate([within, across]), np.arange(1, BINS) / BINS)
    inside, outside = (_shares(values, bounds) for values in (within, across))
    ratio = np.divide(outside, inside, out=np.ones(BINS), where=inside > 0)
    rising: Float64[np.ndarray, " bins"] = isotonic_regression(1 - unrelated * ratio).x
    return Relatedness(bounds, np.clip(rising, 0, 1), 1 - unrelated)


def _share_below(values: Float32[np.ndarray, " pairs"], median: np.floating) -> float:
    """Return the share of values below a median; half of those that equal it count."""
    return float((values < median).mean() + (values == median).mean() / 2)


def distant_pairs(
    spans_of: SpansOf,
    sentences: int,
    count: int,
    rng: np.random.Generator,
    min_distance: int = 2,
) -> Chunk:
    """Random pairs inside documents: `count` draws, without pairs closer than `min_distance`.

    An encoder trained on neighbours finds close sentences similar whether they are related or not.
    """
    i = rng.integers(sentences, size=count)
    first, last = spans_of(i)
    j = first + rng.integers(last - first)
    distant: Bool[np.ndarray, " pairs"] = np.abs(i - j) >= min_distance
    return i[distant], j[distant]


def pairs_across(spans_of: SpansOf, sentences: int, count: int, rng: np.random.Generator) -> Chunk:
    """Random pairs across documents: `count` draws, without pairs inside one document."""
    i, j = rng.integers(sentences, size=(2, count))
    apart = spans_of(i)[0] != spans_of(j)[0]
    return i[apart], j[apart]


def related_pairs(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    model: Relatedness,
    count: int,
    rng: np.random.Generator,
    min_distance: int = 2,
) -> Chunk:
    """Random distant pairs (i < j) that are probably related: at most `count`.

    Fewer where `DRAWS` draws a pair do not give `count`. `offsets` as in `similarity`.
    """
    first, pairs = int(offsets[0]), np.zeros((2, 0), np.int64)
    spans_of = partial(spans_in, offsets - first)
    for start in range(0, DRAWS * count, CHUNK):
        if pairs.shape[1] >= count:
            break
        draws = min(CHUNK, DRAWS * count - start)
        i, j = distant_pairs(spans_of, len(vectors), draws, rng, min_distance)
        kept = model.of(np.einsum("nd,nd->n", vectors[i], vectors[j])) >= PROBABLE
        pairs = np.append(pairs, np.sort([i[kept], j[kept]], axis=0), axis=1)
    return pairs[0, :count] + first, pairs[1, :count] + first


def _shares(
    values: Float32[np.ndarray, " n"], bounds: Float64[np.ndarray, " bounds"]
) -> Float64[np.ndarray, " bins"]:
    places = np.searchsorted(bounds, values, side="right")
    return np.bincount(places, minlength=BINS) / max(len(values), 1)
