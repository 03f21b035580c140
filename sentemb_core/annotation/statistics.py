"""Statistics of an annotation: cluster sizes, shares of pairs, agreement and word overlap."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64
from pydantic import Field

from sentemb_core.tokenize import words
from sentemb_core.types import Value

KEPT_SHARE_WARNING = 0.6
"""Share of all intra-document pairs above which the clusters are whole documents. On news, top_k 1
keeps .21 of the pairs and top_k 2 keeps .98 (the union rule percolates)."""


class ClusterStatistics(Value):
    """Counts, and histograms (size -> count), of clusters and their pairs; shards add up."""

    document_sizes: Counter[int] = Field(default_factory=Counter[int])
    cluster_sizes: Counter[int] = Field(default_factory=Counter[int])
    clusters_per_document: Counter[int] = Field(default_factory=Counter[int])
    """Over documents with at least two sentences."""
    giving_documents: int = 0
    """Documents with at least one pair."""
    held_out_documents: int = 0
    pairs: int = 0
    """Pairs written."""
    adjacent_pairs: int = 0
    """Pairs of neighbours in their document."""

    def __add__(self, other: "ClusterStatistics") -> "ClusterStatistics":
        fields = ClusterStatistics.model_fields
        sums = {name: getattr(self, name) + getattr(other, name) for name in fields}
        return ClusterStatistics(**sums)

    @property
    def mean_clusters(self) -> float:
        """Clusters per document of at least two sentences; 0 without such documents."""
        documents = self.clusters_per_document.total()
        return sum(k * n for k, n in self.clusters_per_document.items()) / max(documents, 1)

    @property
    def possible_pairs(self) -> int:
        return _pairs_within(self.document_sizes)

    @property
    def clustered_pairs(self) -> int:
        return _pairs_within(self.cluster_sizes)

    @property
    def kept_share(self) -> float:
        """Share of all intra-document pairs that share a cluster; 0 if there are no pairs."""
        return self.clustered_pairs / max(self.possible_pairs, 1)


def _pairs_within(sizes: Counter[int]) -> int:
    """Number of pairs inside groups of these sizes."""
    return sum(size * (size - 1) // 2 * count for size, count in sizes.items())


def cluster_statistics(
    labels: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
    held_out: Bool[np.ndarray, " documents"] | None = None,
) -> ClusterStatistics:
    """Statistics of the documents that are not held out. `offsets` as in `similarity`."""
    lengths = np.diff(offsets)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    cluster, document = _groups(documents, labels)
    sizes = np.bincount(cluster, minlength=len(document))
    per_document = np.bincount(document, minlength=len(lengths))
    counted = np.ones(len(lengths), np.bool_) if held_out is None else ~held_out
    return ClusterStatistics(
        document_sizes=Counter(lengths[counted].tolist()),
        cluster_sizes=Counter(sizes[counted[document]].tolist()),
        clusters_per_document=Counter(per_document[counted & (lengths > 1)].tolist()),
        giving_documents=int((counted & (per_document < lengths)).sum()),
        held_out_documents=int((~counted).sum()),
    )


def adjusted_rand(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> tuple[Float64[np.ndarray, " documents"], Float64[np.ndarray, " documents"]]:
    """Return numerator and denominator of the adjusted Rand index (Hubert and Arabie 1985).

    They are the pairs that both labellings have, above chance, and the most that is possible. The
    index is 1 for equal labellings and 0 by chance. A denominator of 0 means an index of 1: one
    sentence, or one cluster in both labellings, or singletons in both.
    """
    in_one, in_other, in_both = _pairs_together(one, other, offsets)
    lengths = np.diff(offsets)
    chance = in_one * in_other / np.maximum(lengths * (lengths - 1) / 2, 1)
    return in_both - chance, (in_one + in_other) / 2 - chance


def pair_disagreement(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> float:
    """Share of the pairs of either labelling that the other lacks; 0 if neither has a pair."""
    in_one, in_other, in_both = (pairs.sum() for pairs in _pairs_together(one, other, offsets))
    either = in_one + in_other - in_both
    return float(1 - in_both / either) if either else 0.0


def lexical_overlap(left: Sequence[str], right: Sequence[str]) -> float:
    """Mean Jaccard index of the word sets of paired sentences (erratum E14); 0 for no pairs.

    mutual needs positives with equal meaning in different words; near 1, they are copies.
    """
    shares = [jaccard(a, b) for a, b in zip(left, right, strict=True)]
    return sum(shares) / max(len(shares), 1)


def jaccard(left: str, right: str) -> float:
    """Shared words over all words of two sentences; 0 if neither has a word."""
    a, b = {*words(left)}, {*words(right)}
    return len(a & b) / max(len(a | b), 1)


def _pairs_together(
    one: Int32[np.ndarray, " sentences"],
    other: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
) -> tuple[Float64[np.ndarray, " documents"], ...]:
    """Pairs a document that share a label in `one`, in `other`, and in both."""
    lengths = np.diff(offsets)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    (a, of_a), (b, of_b) = _groups(documents, one), _groups(documents, other)
    both, a_of_both = _groups(a, b)
    return (
        _pairs_per_document(a, of_a, len(lengths)),
        _pairs_per_document(b, of_b, len(lengths)),
        _pairs_per_document(both, of_a[a_of_both], len(lengths)),
    )


def _groups(
    outer: np.ndarray, inner: np.ndarray
) -> tuple[Int64[np.ndarray, " sentences"], Int64[np.ndarray, " groups"]]:
    """Number the distinct pairs (outer, inner) of all sentences, with the outer of each."""
    span = int(inner.max(initial=0)) + 1
    key, group = np.unique(outer * span + inner, return_inverse=True)
    return group, key // span


def _pairs_per_document(
    group: Int64[np.ndarray, " sentences"], document: Int64[np.ndarray, " groups"], documents: int
) -> Float64[np.ndarray, " documents"]:
    """Pairs of sentences inside a group, summed over the groups of each document."""
    sizes = np.bincount(group, minlength=len(document))
    return np.bincount(document, sizes * (sizes - 1) / 2, minlength=documents)
