"""Eq. 4 of mutual: the sentences of a cluster are positives of each other."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int32, Int64

from sentemb_core.annotation.pruning import Edges

CHUNK = 1 << 20
"""Pairs produced at once: with more, page faults cost more than the pairs."""

Chunk = tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]
Sizes = Int64[np.ndarray, "..."]


def cluster_pairs(
    labels: Int32[np.ndarray, " sentences"],
    offsets: Int64[np.ndarray, " bounds"],
    *,
    held_out: Bool[np.ndarray, " documents"] | None = None,
    max_partners: int | None = None,
    min_distance: int = 1,
    seed: int = 0,
    texts: Int64[np.ndarray, " sentences"] | None = None,
) -> Iterator[Chunk]:
    """Yield all pairs (i < j) of canonical sentences that share a cluster, sorted by (i, j).

    With `max_partners` = m, a cluster of more than m + 1 sentences is thinned. Its sentences form a
    circle in the order of their texts' hashes. Each keeps the sentences at distance 1, ..., m // 2
    on both sides and, for odd m, the sentence opposite. So each keeps m partners; if m and the
    cluster are odd, one sentence keeps m - 1. The number of pairs grows linearly with sentences.

    Args:
        labels: Cluster of each sentence, counted in its document.
        offsets: As in `similarity`.
        held_out: Documents that give no pair.
        max_partners: Partners a sentence; None: all.
        min_distance: Closer pairs are left out, although a chain can join them in a cluster.
        seed: Decides the order of the circles.
        texts: Hash of each sentence, which `max_partners` needs. The order comes from the hashes
            and the seed alone, so shards change nothing.
    """
    if not len(labels):
        return
    documents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    cluster = documents * (int(labels.max(initial=0)) + 1) + labels
    giving = np.ones(len(labels), np.bool_) if held_out is None else ~held_out[documents]
    first = int(offsets[0])
    if max_partners is None:
        chunks = _all_pairs(cluster, giving)
    else:
        assert texts is not None, "the order of a circle comes from the texts"
        draws = texts.view(np.uint64) * np.uint64(np.random.PCG64(seed).random_raw() | 1)
        chunks = _circle_pairs(cluster, giving, documents, draws, max_partners)
    for i, j in chunks:
        apart = j - i >= min_distance if min_distance > 1 else slice(None)
        yield i[apart] + first, j[apart] + first


def edge_pairs(
    edges: Edges, offsets: Int64[np.ndarray, " bounds"], held_out: Bool[np.ndarray, " documents"]
) -> Chunk:
    """The edges as pairs (i < j, sorted), without those of documents `held_out`."""
    kept = ~held_out[np.searchsorted(offsets, edges.i, side="right") - 1]
    return edges.i[kept], edges.j[kept]


def _all_pairs(
    cluster: Int64[np.ndarray, " sentences"], giving: Bool[np.ndarray, " sentences"]
) -> Iterator[Chunk]:
    """Every sentence with the later sentences of its cluster."""
    order = np.argsort(cluster, kind="stable")
    start, size = _extents(cluster[order])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    later = np.where(giving, (start + size)[place] - place - 1, 0)
    for owners in _cut(np.arange(len(order)), later):
        i, step = _repeated(owners, later[owners])
        yield i, order[place[i] + 1 + step]


def _circle_pairs(
    cluster: Int64[np.ndarray, " sentences"],
    giving: Bool[np.ndarray, " sentences"],
    documents: Int64[np.ndarray, " sentences"],
    draws: np.ndarray,
    max_partners: int,
) -> Iterator[Chunk]:
    """Every sentence with the next sentences on its cluster's circle, in chunks of documents."""
    order = np.lexsort((draws, cluster))
    start, size = _extents(cluster[order])
    seat = np.arange(len(order)) - start
    partners = np.minimum(max_partners, size - 1)
    near = partners // 2
    ahead = np.where(giving[order], near + ((partners % 2 == 1) & (seat < size // 2)), 0)
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(documents)) + 1])
    per_document = np.add.reduceat(ahead, bounds)
    starts = [*bounds.tolist(), len(order)]
    for part in _cut(np.arange(len(bounds)), per_document):
        places = np.arange(starts[part[0]], starts[part[-1] + 1])
        own, step = _repeated(places, ahead[places])
        distance = np.where(step < near[own], step + 1, size[own] // 2)
        one, other = order[own], order[start[own] + (seat[own] + distance) % size[own]]
        key = np.sort(np.minimum(one, other) * len(order) + np.maximum(one, other))
        yield key // len(order), key % len(order)


def _extents(
    ordered: Int64[np.ndarray, " sentences"],
) -> tuple[Int64[np.ndarray, " sentences"], Int64[np.ndarray, " sentences"]]:
    """For every place in a list sorted by cluster, the start and the size of its cluster."""
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(starts, append=len(ordered))
    return np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _cut(items: Sizes, counts: Sizes) -> list[Sizes]:
    """Runs of consecutive items whose counts add up to about `CHUNK`."""
    before = np.cumsum(counts) - counts
    return np.split(items, np.flatnonzero(np.diff(before // CHUNK)) + 1)


def _repeated(items: Sizes, counts: Sizes) -> Chunk:
    """Each item repeated as often as its count, and the number 0, 1, ... of each repetition."""
    begin = np.cumsum(counts) - counts
    return np.repeat(items, counts), np.arange(counts.sum()) - np.repeat(begin, counts)
