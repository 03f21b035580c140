"""Who is nearest to whom inside each document: the fully connected graph of Eq. 2, cut to a degree.

`offsets[d]` is the canonical index of the first sentence of document d and `offsets[-1]` ends the
last document; row 0 of the vectors belongs to sentence `offsets[0]`. So a shard of a corpus and a
whole corpus are written alike, and everything that comes out names canonical sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int32, Int64
from torch import Tensor

from sentemb_core.errors import BadEmbeddingError

GRAIN = 8
"""Documents are padded to a multiple of this many sentences. Odd shapes make a matrix product
round w_ij and w_ji apart, and equal sentences would no longer tie; measured: none from 8 on."""

BUDGET = 1 << 20
"""Bytes of vectors and weights held at once: what stays in the cache is fastest."""


@dataclass(frozen=True)
class Neighbours:
    """The strongest neighbours of sentences `first`, `first + 1`, ..., best first.

    `index` names sentences and is -1 (with weight 0) where the document has no more.
    """

    first: int
    index: Int64[np.ndarray, "sentences degree"]
    weight: Float32[np.ndarray, "sentences degree"]


def neighbours(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    degree: int,
    min_distance: int = 1,
) -> Neighbours:
    """The `degree` strongest neighbours of every sentence inside its document, itself excluded.

    Sentences nearer than `min_distance` in the document are no neighbours: 2 leaves out adjacent
    ones, 1 none.

    A zero vector (of a sentence without a word that a static table knows) is nobody's neighbour and
    has none: it would tie with all.

    The weight is the inner product in fp32 (mutual, Eq. 2): the cosine when the vectors are
    normalised. Ranked by (weight down, index up). Memory beyond the result does not grow with the
    corpus; a document of n sentences costs n * dim, not n * n.

    Raises BadEmbeddingError if a vector is not finite.
    """
    rows = torch.from_numpy(vectors)
    index = np.full((len(vectors), degree), -1, np.int64)
    weight = np.zeros((len(vectors), degree), np.float32)
    first = int(offsets[0])
    starts = offsets[:-1] - first
    for documents, width in _buckets(np.diff(offsets), vectors.shape[1]):
        start = torch.from_numpy(starts[documents])[:, None]
        own = start + torch.arange(width)
        real = own < torch.from_numpy(offsets[documents + 1] - first)[:, None]
        flat = own.clamp(max=len(rows) - 1).flatten()
        batch = rows.index_select(0, flat).view(*own.shape, -1)
        real &= batch.any(dim=-1)
        for block in _row_blocks(width, len(documents)):
            weights = torch.bmm(batch[:, block], batch.transpose(1, 2))
            kept = real[:, block].numpy()
            place = own[:, block].numpy()[kept]
            _forbid_self_and_padding(weights, block, real, place + first)
            if min_distance > 1:
                weights.masked_fill_(_near(block, width, min_distance), -torch.inf)
            partner, strength = top_neighbours(weights.numpy(), degree)
            partner += np.where(partner < 0, 0, starts[documents, None, None] + first)
            index[place], weight[place] = partner[kept], strength[kept]
    return Neighbours(first, index, weight)


def top_neighbours(
    weights: Float32[np.ndarray, "*rows columns"], degree: int
) -> tuple[Int64[np.ndarray, "*rows degree"], Float32[np.ndarray, "*rows degree"]]:
    """The `degree` strongest columns of every row and their weights, by (weight down, index up).

    -inf forbids a column; -1 and weight 0 stand where a row has no more.
    """
    columns = weights.shape[-1]
    kept = min(degree, columns)
    keys = _sort_keys(weights)
    keys.partition(columns - kept, axis=-1)
    best = np.sort(keys[..., columns - kept :], axis=-1)[..., ::-1]
    strength = _ordered((best >> 32).astype(np.int32)).view(np.float32)
    there = strength > -np.inf
    index = np.full((*weights.shape[:-1], degree), -1, np.int64)
    weight = np.zeros(index.shape, np.float32)
    index[..., :kept] = np.where(there, columns - 1 - (best & 0xFFFFFFFF), -1)
    weight[..., :kept] = np.where(there, strength, 0)
    return index, weight


def require_finite(
    squared_norms: Float32[np.ndarray, " sentences"], sentences: Int64[np.ndarray, " sentences"]
) -> None:
    """Refuse vectors with a NaN, an infinity or an inner product that overflows.

    Raises BadEmbeddingError naming the first of the `sentences`.
    """
    broken = sentences[~np.isfinite(squared_norms)]
    if len(broken):
        first = broken[:5].tolist()
        named = ", ".join(map(str, first))
        raise BadEmbeddingError(
            f"Sentence vectors must be finite before they are clustered, but {len(broken)} of "
            f"{len(sentences)} looked at are not (sentences {named}, ...). The encoder has "
            "diverged or overflowed: take an earlier round, or encode and store in float32.",
            first,
        )


def _sort_keys(
    weights: Float32[np.ndarray, "*rows columns"],
) -> Int64[np.ndarray, "*rows columns"]:
    """Integers that sort as (weight up, index down): the weight's bits above the index's.

    They leave no ties to the sort and, as plain integers, five times faster than rank by rank.
    """
    columns = weights.shape[-1]
    keys = _ordered((weights + np.float32(0)).view(np.int32)).astype(np.int64)  # -0 ties with 0
    keys <<= 32
    keys |= np.arange(columns - 1, -1, -1)
    return keys


def _ordered(bits: Int32[np.ndarray, "*shape"]) -> Int32[np.ndarray, "*shape"]:
    """Bits of floats as integers in the same order, and back: a negative float counts downwards."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _buckets(
    lengths: Int64[np.ndarray, " documents"], dim: int
) -> Iterator[tuple[Int64[np.ndarray, " bucket"], int]]:
    """Documents of similar length and the width they share, within BUDGET (one document at least).

    The width depends on the document alone, so its weights do not depend on its bucket mates.
    """
    widths = -(-lengths // GRAIN) * GRAIN
    order = np.argsort(widths, kind="stable")
    order = order[widths[order] > 0]
    for same in np.split(order, np.flatnonzero(np.diff(widths[order])) + 1):
        width = int(widths[same[0]]) if len(same) else 1
        step = max(1, BUDGET // (4 * width * (width + dim)))
        for begin in range(0, len(same), step):
            yield same[begin : begin + step], width


def _row_blocks(width: int, documents: int) -> Iterator[slice]:
    """All rows at once, or for one very long document as many as fit the budget."""
    step = max(GRAIN, BUDGET // (4 * width * documents) // GRAIN * GRAIN)
    for begin in range(0, width, step):
        yield slice(begin, min(begin + step, width))


def _near(block: slice, width: int, min_distance: int) -> Bool[Tensor, "rows width"]:
    """Which columns stand closer to the block's rows than `min_distance`."""
    places = torch.arange(width)
    return (places[block, None] - places).abs() < min_distance


def _forbid_self_and_padding(
    weights: Float32[Tensor, "documents rows width"],
    block: slice,
    real: Bool[Tensor, "documents width"],
    sentences: Int64[np.ndarray, " sentences"],
) -> None:
    """Overwrite with -inf what is no neighbour; the diagonal first tells whether all is finite."""
    itself = torch.diagonal(weights[:, :, block], dim1=1, dim2=2)
    require_finite(itself[real[:, block]].numpy(), sentences)
    itself.fill_(-torch.inf)
    weights.masked_fill_(~real[:, None, :], -torch.inf)
