"""Eq. 2 of mutual: the similarity graph inside each document, cut to the nearest neighbours.

`offsets[d]` is the canonical index of the first sentence of document d and `offsets[-1]` ends the
last document; row 0 of the vectors belongs to sentence `offsets[0]`. A shard and a whole corpus
therefore have one form, and every result contains canonical indices of sentences.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int32, Int64
from torch import Tensor

from sentemb_core.annotation.longest import require_comparable
from sentemb_core.errors import BadEmbeddingError

GRAIN = 8
"""Documents are padded to a multiple of this many sentences. In other shapes a matrix product
rounds w_ij and w_ji differently, so equal sentences do not tie. In multiples of 8 no case was
found.
"""

BUDGET = 1 << 20
"""Bytes of vectors and weights in memory at once: a block that fits the cache is fastest."""

ROWS = 64
"""Fewest sentences of a long document that are compared with all others at once. With 8, the
vectors are read from memory so often that 20,000 sentences take 23 s of CPU instead of 10."""


@dataclass(frozen=True)
class Neighbours:
    """The strongest neighbours of sentences `first`, `first + 1`, ..., best first.

    `index` holds sentences, and -1 (with weight 0) where the document has no more.
    """

    first: int
    index: Int64[np.ndarray, "sentences degree"]
    weight: Float32[np.ndarray, "sentences degree"]


def neighbours(
    vectors: Float32[np.ndarray, "sentences dim"],
    offsets: Int64[np.ndarray, " bounds"],
    degree: int,
    min_distance: int = 1,
    compared: Callable[[int], None] = lambda _: None,
) -> Neighbours:
    """Return the `degree` strongest neighbours of every sentence inside its document.

    The weight is the inner product in fp32 (mutual, Eq. 2), which is the cosine of normalised
    vectors. Neighbours are ranked by falling weight, then by rising index. Beyond the result, a
    document of n sentences needs n * dim of memory, not n * n.

    Args:
        vectors: One row per sentence.
        offsets: Bounds of the documents (see the module).
        degree: Neighbours a sentence.
        min_distance: Sentences that are closer in the document are no neighbours: 2 excludes
            adjacent sentences, 1 excludes only the sentence itself.
        compared: Called after each block with the number of its pairs of sentences.

    A zero vector has no neighbours and is no neighbour: it would tie with all. A static table gives
    one to a sentence without known words.

    Raises:
        BadEmbeddingError: A vector is not finite.
        LongDocumentError: A document has more than `LONGEST` sentences.
    """
    require_comparable(int(np.diff(offsets).max(initial=0)))
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
        real &= torch.linalg.vector_norm(batch, dim=-1) != 0  # 5 times as fast as any()
        for block in _row_blocks(width, len(documents)):
            weights = torch.bmm(batch[:, block], batch.transpose(1, 2))
            kept = real[:, block].numpy()
            place = own[:, block].numpy()[kept]
            _exclude_self_and_padding(weights, block, real, place + first)
            if min_distance > 1:
                places = torch.arange(width)
                near = (places[block, None] - places).abs() < min_distance
                weights.masked_fill_(near, -torch.inf)
            partner, strength = top_neighbours(weights.numpy(), degree)
            partner += np.where(partner < 0, 0, starts[documents, None, None] + first)
            index[place], weight[place] = partner[kept], strength[kept]
            compared(weights.numel())
    return Neighbours(first, index, weight)


def top_neighbours(
    weights: Float32[np.ndarray, "*rows columns"], degree: int
) -> tuple[Int64[np.ndarray, "*rows degree"], Float32[np.ndarray, "*rows degree"]]:
    """Return the `degree` strongest columns of every row, and their weights.

    They are ranked by falling weight, then by rising index. A weight of -inf excludes a column. A
    row with too few columns is filled with index -1 and weight 0.
    """
    columns = weights.shape[-1]
    kept = min(degree, columns)
    # Integers that sort by rising weight, then by falling index: weight bits above index bits. They
    # have no ties, and sorting plain integers is five times as fast as sorting twice.
    keys = _ordered((weights + np.float32(0)).view(np.int32)).astype(np.int64)  # -0 ties with 0
    keys <<= 32
    keys |= np.arange(columns - 1, -1, -1)
    keys.partition(columns - kept, axis=-1)
    best = np.sort(keys[..., columns - kept :], axis=-1)[..., ::-1]
    strength = _ordered((best >> 32).astype(np.int32)).view(np.float32)
    allowed = strength > -np.inf
    index = np.full((*weights.shape[:-1], degree), -1, np.int64)
    weight = np.zeros(index.shape, np.float32)
    index[..., :kept] = np.where(allowed, columns - 1 - (best & 0xFFFFFFFF), -1)
    weight[..., :kept] = np.where(allowed, strength, 0)
    return index, weight


def require_finite(
    squared_norms: Float32[np.ndarray, " sentences"], sentences: Int64[np.ndarray, " sentences"]
) -> None:
    """Refuse vectors with a NaN, an infinity or an inner product that overflows.

    Raises:
        BadEmbeddingError: With the first of the `sentences`.
    """
    broken = sentences[~np.isfinite(squared_norms)]
    if len(broken):
        first = broken[:5].tolist()
        named = ", ".join(map(str, first))
        raise BadEmbeddingError(
            f"Sentence vectors must be finite to be clustered; {len(broken)} of {len(sentences)} "
            f"are not (sentences {named}, ...). The encoder has diverged or overflowed: take an "
            "earlier round, or encode and store in float32.",
            first,
        )


def _ordered(bits: Int32[np.ndarray, "*shape"]) -> Int32[np.ndarray, "*shape"]:
    """Bits of floats as integers in the order of the floats; applied again, the bits come back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _buckets(
    lengths: Int64[np.ndarray, " documents"], dim: int
) -> Iterator[tuple[Int64[np.ndarray, " bucket"], int]]:
    """Documents of similar length and their common width, within BUDGET (at least one document).

    The width depends on the document only, so its weights do not depend on its bucket.
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
    """All rows at once; for one very long document, as many rows as fit the budget."""
    step = max(ROWS, BUDGET // (4 * width * documents) // GRAIN * GRAIN)
    for begin in range(0, width, step):
        yield slice(begin, min(begin + step, width))


def _exclude_self_and_padding(
    weights: Float32[Tensor, "documents rows width"],
    block: slice,
    real: Bool[Tensor, "documents width"],
    sentences: Int64[np.ndarray, " sentences"],
) -> None:
    """Set weights of non-neighbours to -inf, after checking on the diagonal that all are finite."""
    itself = torch.diagonal(weights[:, :, block], dim1=1, dim2=2)
    require_finite(itself[real[:, block]].numpy(), sentences)
    itself.fill_(-torch.inf)
    weights.masked_fill_(~real[:, None, :], -torch.inf)
