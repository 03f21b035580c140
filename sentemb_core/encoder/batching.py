"""Many sentences to vectors: equal sentences once, equal lengths in one batch, no padding."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float32, Int, Int64
from torch import Tensor

from sentemb_core.encoder.devices import any_shape, one_thread_each
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.packed_weights import packed_weights
from sentemb_core.errors import BadEmbeddingError
from sentemb_core.types import Precision, Role

log = logging.getLogger(__name__)

T = TypeVar("T")

Places = Int64[np.ndarray, " texts"]

TOKEN_BUDGET = 4096
"""Tokens a batch: from 2,048 to 16,384, MiniLM's throughput is flat, but memory grows."""

CUDA_BUDGET = 16_384
"""Tokens per batch on CUDA. On an H200, MiniLM encodes 1.5 times as many sentences a second as with
4,096 (2.7 times in bfloat16; `benchmarks/gpu.py`). With 262,144 it encodes no more."""


def length_buckets(
    lengths: Int64[np.ndarray, " n"], token_budget: int
) -> list[Int64[np.ndarray, " rows"]]:
    """Return batches of rows of one length, at most `token_budget` tokens each (or one row)."""
    order = np.argsort(lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    batches: list[np.ndarray] = []
    for rows in np.split(order, starts[1:]):
        size = max(1, token_budget // int(lengths[rows].max(initial=1)))
        batches += [rows[i : i + size] for i in range(0, len(rows), size)]
    return batches


def encode(
    encoder: Encoder,
    sequences: Sequence[np.ndarray],
    *,
    dtype: Precision = "float32",
    progress: Callable[[int], None] | None = None,
    first: int = 0,
) -> Float32[np.ndarray, "n dim"]:
    """Return sentence vectors in the order of `sequences`, of length 1 for cosine.

    A static table gives a zero vector to a text without known words: its cosine is always 0.

    Args:
        encoder: It encodes without dropout; its mode (train or eval) is restored afterwards.
        sequences: Token ids of each sentence (`Encoder.tokenise`, or the token cache).
        dtype: bfloat16 is faster if the processor has units for it
            (`store.machine.fast_precision`). It changes 2 % of mined pairs (MiniLM on 300 news
            documents). A vector that is not finite is computed again in float32, with a warning.
        progress: Called with the number of sentences done, in proportion to their tokens.
        first: Index of the first sentence in its corpus, for messages.

    Raises:
        BadEmbeddingError: A vector is not finite, or a transformer gives a zero vector for cosine.
    """
    vectors = _encoded(encoder, sequences, encoder.vectors, dtype, progress, first)
    zero = encoder.similarity == "dot" or encoder.kind == "static"
    _check_vectors(vectors, first, zero=zero)
    return vectors


def pooled_vectors(
    encoder: Encoder,
    sequences: Sequence[np.ndarray],
    *,
    dtype: Precision = "float32",
    progress: Callable[[int], None] | None = None,
) -> Float32[np.ndarray, "n dim"]:
    """Return the vectors of `encode` before normalisation, for fitting a whitening or a flow.

    Raises:
        BadEmbeddingError: A vector is not finite.
    """
    vectors = _encoded(encoder, sequences, lambda pooled: pooled, dtype, progress=progress)
    _check_vectors(vectors, zero=True)
    return vectors


def _encoded(
    encoder: Encoder,
    sequences: Sequence[np.ndarray],
    finished: Callable[[Tensor], Tensor],
    dtype: Precision,
    progress: Callable[[int], None] | None = None,
    first: int = 0,
) -> Float32[np.ndarray, "n dim"]:
    """`finished` of the pooled vectors; rows that overflow bfloat16 are computed in float32."""

    def vectors_of(ids: Int[Tensor, "rows time"]) -> Float32[np.ndarray, "rows dim"]:
        with autocast(encoder.device, dtype):
            return finished(encoder(ids)).cpu().numpy()

    vectors = np.empty((len(sequences), encoder.dim), np.float32)
    for places, rows, batch in read_in_batches(encoder, sequences, vectors_of, dtype, progress):
        vectors[places] = batch[rows]
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist()
    if bad and dtype == "bfloat16":
        log.warning(
            "bfloat16 overflows for %d of %d sentences, first sentence %d: these are encoded again "
            "in float32.", len(bad), len(vectors), bad[0] + first,
        )  # fmt: skip
        vectors[bad] = _encoded(encoder, [sequences[row] for row in bad], finished, "float32")
    return vectors


def read_in_batches(
    encoder: Encoder,
    sequences: Sequence[np.ndarray],
    read: Callable[[Int[Tensor, "rows time"]], T],
    dtype: Precision,
    progress: Callable[[int], None] | None,
) -> Generator[tuple[Places, Places, T], None, None]:
    """Yield for each batch of distinct texts: places in `sequences`, rows of the batch, the result.

    A place has the text of its row: equal texts are read once.

    Args:
        encoder: It reads without dropout.
        sequences: Token ids of each text.
        read: From the ids of texts of one length to their result, in inference mode. On a CPU
            several batches are read at once.
        dtype: The precision of `read`.
        progress: Called with the number of texts done, in proportion to their tokens.
    """
    text_of = equal_to(sequences)
    texts = [sequences[row] for row in np.unique(text_of, return_index=True)[1].tolist()]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    count = np.bincount(text_of)
    weight = count * lengths
    total = max(int(weight.sum()), 1)
    device = encoder.device

    def result_of(rows: Int64[np.ndarray, " rows"]) -> T:
        ids = torch.from_numpy(np.stack([texts[row] for row in rows]))
        with torch.inference_mode():
            return read(ids.to(device))

    batches = length_buckets(lengths, TOKEN_BUDGET if device.type == "cpu" else CUDA_BUDGET)
    position = np.argsort(np.concatenate([np.empty(0, np.int64), *batches]))[text_of]
    left = np.argsort(position, kind="stable")
    first = done = 0
    with (
        evaluating(encoder),
        packed_weights(encoder, dtype, int(lengths.sum())),
        any_shape(),
        one_thread_each(device) as pool,
    ):
        # a table costs less than the Python around it, and each thread has its own heap
        each = pool.map if encoder.kind == "transformer" else map
        for rows, result in zip(batches, each(result_of, batches), strict=True):
            places, left = np.split(left, [count[rows].sum()])
            yield places, position[places] - first, result
            first += len(rows)
            done += int(weight[rows].sum())
            if progress:
                progress(len(sequences) * done // total)


def embed_texts(
    encoder: Encoder,
    texts: Sequence[str],
    dtype: Precision = "float32",
    *,
    role: Role = "text",
    progress: Callable[[int], None] | None = None,
) -> Float32[np.ndarray, "n dim"]:
    """Return the vectors of texts of one role: tokenise and encode.

    Raises:
        BadEmbeddingError: As `encode`.
    """
    return encode(encoder, encoder.tokenise(texts, role), dtype=dtype, progress=progress)


def equal_to(sequences: Sequence[np.ndarray]) -> Int64[np.ndarray, " n"]:
    """Return the same number for equal sequences, counted by first appearance."""
    known: dict[bytes, int] = {}
    numbers = (known.setdefault(sequence.tobytes(), len(known)) for sequence in sequences)
    return np.fromiter(numbers, np.int64, len(sequences))


@contextmanager
def evaluating(encoder: Encoder) -> Generator[None]:
    """Disable dropout, and restore the encoder's mode afterwards."""
    if not encoder.training:  # both calls visit every module: 15 ms for MiniLM
        yield
        return
    encoder.eval()
    try:
        yield
    finally:
        encoder.train()


def autocast(device: torch.device, dtype: Precision) -> torch.autocast:
    """Matrix products in bfloat16 if `dtype` is bfloat16; nothing changes for float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")


@contextmanager
def naming_documents(place: Callable[[int], tuple[str, int]]) -> Generator[None]:
    """Name the document in a BadEmbeddingError of this block.

    `place`: sentence -> (id of its document, position in it).
    """
    try:
        yield
    except BadEmbeddingError as error:
        error.documents = ", ".join(
            f"sentence {position + 1} of document {doc_id!r}"
            for doc_id, position in map(place, error.sentences)
        )
        raise


def _check_vectors(vectors: Float32[np.ndarray, "n dim"], first: int = 0, *, zero: bool) -> None:
    """Refuse vectors that are not finite, or that are zero unless `zero` allows it.

    Raises:
        BadEmbeddingError: With the first bad sentences; row 0 is sentence `first`.
    """
    bad = ~np.isfinite(vectors).all(axis=1)
    if not zero:
        bad |= ~vectors.any(axis=1)
    if bad.any():
        rows = (np.flatnonzero(bad) + first).tolist()
        raise BadEmbeddingError(
            f"Every sentence vector must be finite{'' if zero else ' and not zero'}: "
            f"{len(rows)} of {len(vectors)} are not, first sentences {rows[:5]}. Check for a "
            "diverged training, or for sentences without a known token.",
            rows[:5],
        )
