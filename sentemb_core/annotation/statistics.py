"""What an annotation looks like in numbers: sizes, shares, churn and overlap."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from sentemb_core.tokenize import words

KEPT_SHARE_WARNING = 0.6
"""Share of a document's pairs from which on annotation says little: on news top_k 1 keeps .21 of
them, top_k 2 .98 (the union rule percolates)."""


@dataclass(frozen=True)
class ClusterStatistics:
    """Histograms (size -> how many) from which everything else follows; shards add up."""

    document_sizes: Counter[int] = field(default_factory=Counter[int])
    cluster_sizes: Counter[int] = field(default_factory=Counter[int])
    clusters_per_document: Counter[int] = field(default_factory=Counter[int])
    """Of documents with at least two sentences."""
    giving_documents: int = 0
    """Documents with at least one pair."""

    def __add__(self, other: "ClusterStatistics") -> "ClusterStatistics":
        return ClusterStatistics(
            self.document_sizes + other.document_sizes,
            self.cluster_sizes + other.cluster_sizes,
            self.clusters_per_document + other.clusters_per_document,
            self.giving_documents + other.giving_documents,
        )

    @property
    def clusters(self) -> int:
        return self.cluster_sizes.total()

    @property
    def single_cluster_documents(self) -> int:
        """Documents of at least two sentences that fell into one cluster whole."""
        return self.clusters_per_document[1]

    @property
    def mean_clusters(self) -> float:
        """Clusters per document of at least two sentences; 0 without such documents."""
        documents = self.clusters_per_document.total()
        return sum(k * n for k, n in self.clusters_per_document.items()) / max(documents, 1)

    @property
    def possible_pairs(self) -> int:
        return pairs_of(self.document_sizes)

    @property
    def clustered_pairs(self) -> int:
        return pairs_of(self.cluster_sizes)

    @property
    def kept_share(self) -> float:
        """Share of all intra-document pairs that lie in one cluster; 0 if there are no pairs."""
        return self.clustered_pairs / max(self.possible_pairs, 1)


def pairs_of(sizes: Counter[int]) -> int:
    """Pairs inside groups of these sizes."""
    return sum(size * (size - 1) // 2 * count for size, count in sizes.items())


def cluster_statistics(
    labels: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
    held_out: Bool[np.ndarray, " documents"] | None = None,
) -> ClusterStatistics:
    """Statistics of the documents that are not held out. `offsets` as in `similarity`."""
    lengths = np.diff(offsets)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    cluster = _unique(documents, labels)
    sizes = np.bincount(cluster.inverse, minlength=len(cluster.document))
    per_document = np.bincount(cluster.document, minlength=len(lengths))
    counted = np.ones(len(lengths), np.bool_) if held_out is None else ~held_out
    return ClusterStatistics(
        _histogram(lengths[counted]),
        _histogram(sizes[counted[cluster.document]]),
        _histogram(per_document[counted & (lengths > 1)]),
        int((counted & (per_document < lengths)).sum()),
    )


@dataclass(frozen=True)
class Agreement:
    """Adjusted Rand index of two annotations: 1 the same, 0 as alike as chance.

    Chance is drawn within each document.
    """

    above: Float64[np.ndarray, " documents"]
    """Pairs that both have, above chance: the index's numerator."""
    room: Float64[np.ndarray, " documents"]
    """The most that could be: its denominator."""

    @property
    def per_document(self) -> Float64[np.ndarray, " documents"]:
        """1 where no labelling could agree better or worse."""
        room = self.room != 0
        return np.divide(self.above, self.room, out=np.ones(len(room)), where=room)

    @property
    def overall(self) -> float:
        """Of the pairs of all documents together."""
        return float(self.above.sum() / self.room.sum()) if self.room.any() else 1.0


def adjusted_rand(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> Agreement:
    """How far two labellings of the same sentences agree (Hubert and Arabie 1985).

    A document in which no labelling could agree better or worse has one sentence, or both
    labellings have it as one cluster, or both as singletons.
    """
    in_one, in_other, in_both = _pairs_together(one, other, offsets)
    lengths = np.diff(offsets)
    chance = in_one * in_other / np.maximum(lengths * (lengths - 1) / 2, 1)
    return Agreement(in_both - chance, (in_one + in_other) / 2 - chance)


def pairs_of_one_alone(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> float:
    """Of the pairs of either labelling, the share that the other has not; 0 where none has any."""
    in_one, in_other, in_both = (pairs.sum() for pairs in _pairs_together(one, other, offsets))
    either = in_one + in_other - in_both
    return float(1 - in_both / either) if either else 0.0


def lexical_overlap(left: Sequence[str], right: Sequence[str]) -> float:
    """Mean Jaccard index of the word sets of paired sentences (erratum E14); 0 for no pairs.

    mutual wants positives that mean the same in other words; near 1 they are copies.
    """
    shares = [jaccard(a, b) for a, b in zip(left, right, strict=True)]
    return sum(shares) / max(len(shares), 1)


def jaccard(left: str, right: str) -> float:
    """Shared words over all words of two sentences; 0 if neither has one."""
    a, b = {*words(left)}, {*words(right)}
    return len(a & b) / max(len(a | b), 1)


def _pairs_together(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> tuple[Float64[np.ndarray, " documents"], ...]:
    """By document, the pairs of sentences that `one` labels alike, that `other` does, that both."""
    lengths = np.diff(offsets)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    a, b = _unique(documents, one), _unique(documents, other)
    cell = _unique(a.inverse, b.inverse)
    return (
        _pairs_per_document(a.inverse, a.document, len(lengths)),
        _pairs_per_document(b.inverse, b.document, len(lengths)),
        _pairs_per_document(cell.inverse, a.document[cell.document], len(lengths)),
    )


@dataclass(frozen=True)
class _Groups:
    inverse: Int64[np.ndarray, " sentences"]
    document: Int64[np.ndarray, " groups"]


def _unique(outer: np.ndarray, inner: np.ndarray) -> _Groups:
    """Number the distinct (outer, inner) of all sentences; and the outer of each number."""
    span = int(inner.max(initial=0)) + 1
    key, inverse = np.unique(outer * span + inner, return_inverse=True)
    return _Groups(inverse, key // span)


def _pairs_per_document(
    group: Int64[np.ndarray, " sentences"], document: Int64[np.ndarray, " groups"], documents: int
) -> Float64[np.ndarray, " documents"]:
    """Pairs of sentences inside one group, added up over each document's groups."""
    sizes = np.bincount(group, minlength=len(document))
    return np.bincount(document, sizes * (sizes - 1) / 2, minlength=documents)


def _histogram(values: np.ndarray) -> Counter[int]:
    counts = np.bincount(values)
    return Counter({int(value): int(counts[value]) for value in np.flatnonzero(counts)})
