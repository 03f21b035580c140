"""Many sentences to vectors: equal ones once, equal lengths together, no padding, no mask."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Int64

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadEmbeddingError
from sentemb_core.types import Similarity

Precision = Literal["float32", "bfloat16"]

TOKEN_BUDGET = 4096
"""Tokens a batch: MiniLM's throughput is flat from 2,048 to 16,384, memory is not."""


def length_buckets(
    lengths: Int64[np.ndarray, " n"], token_budget: int = TOKEN_BUDGET
) -> list[Int64[np.ndarray, " rows"]]:
    """Batches of rows of exactly one length, at most `token_budget` tokens each (or one row)."""
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
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[int], None] | None = None,
    first: int = 0,
) -> Float32[np.ndarray, "n dim"]:
    """Sentence vectors in the order of `sequences`, of length 1 for cosine.

    Args:
        encoder: Its mode (train or eval) is left as found; it encodes without dropout.
        sequences: Token ids of each sentence (`Encoder.tokenise`, or the token cache).
        dtype: bfloat16 is 2-3 times faster and changes 2 % of mined pairs (PERFORMANCE.md 1).
        token_budget: Tokens a batch.
        progress: Called with the number of sentences done so far.
        first: Index of the first sentence in its corpus, for messages.

    Raises:
        BadEmbeddingError: A vector is not finite, or zero where cosine needs a direction.
    """
    text_of = equal_to(sequences)
    texts = [sequences[row] for row in np.unique(text_of, return_index=True)[1].tolist()]
    copies = np.bincount(text_of)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    vectors = np.empty((len(texts), encoder.dim), dtype=np.float32)
    device = next(encoder.parameters()).device
    done = 0
    with evaluating(encoder), torch.inference_mode(), autocast(device, dtype):
        for rows in length_buckets(lengths, token_budget):
            ids = torch.from_numpy(np.stack([texts[row] for row in rows]))
            pooled = encoder(ids.to(device))
            vectors[rows] = encoder.vectors(pooled).cpu().numpy()
            done += int(copies[rows].sum())
            if progress:
                progress(done)
    vectors = vectors[text_of]
    check_vectors(vectors, encoder.similarity, first)
    return vectors


def embed_texts(
    encoder: Encoder, texts: Sequence[str], dtype: Precision = "float32"
) -> Float32[np.ndarray, "n dim"]:
    """Vectors of texts: tokenise and encode.

    Raises:
        BadEmbeddingError: As `encode`.
    """
    return encode(encoder, encoder.tokenise(texts), dtype=dtype)


def equal_to(sequences: Sequence[np.ndarray]) -> Int64[np.ndarray, " n"]:
    """A number per sequence, the same for equal ones, counted by first appearance."""
    known: dict[bytes, int] = {}
    numbers = (known.setdefault(sequence.tobytes(), len(known)) for sequence in sequences)
    return np.fromiter(numbers, np.int64, len(sequences))


@contextmanager
def evaluating(encoder: Encoder) -> Generator[None]:
    """Without dropout; afterwards in the mode it was in."""
    was_training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(was_training)


def autocast(device: torch.device, dtype: Precision) -> torch.autocast:
    """bfloat16 matrix products; the rest, and all of it for float32, as it is."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")


def check_vectors(
    vectors: Float32[np.ndarray, "n dim"], similarity: Similarity, first: int = 0
) -> None:
    """Refuse vectors that no similarity can compare.

    Args:
        vectors: One row a sentence.
        similarity: A zero vector is fine for dot, and has no direction for cosine.
        first: Index of the first row, for the message.

    Raises:
        BadEmbeddingError: Naming the first rows that are not finite or zero.
    """
    bad = ~np.isfinite(vectors).all(axis=1)
    if similarity == "cosine":
        bad |= ~vectors.any(axis=1)
    if bad.any():
        rows = (np.flatnonzero(bad) + first).tolist()
        raise BadEmbeddingError(
            f"Every sentence vector must be finite{' and not zero' * (similarity == 'cosine')}: "
            f"{len(rows)} of {len(vectors)} are not, first at sentences {rows[:5]}. Look for a "
            "training that diverged, or sentences without a token the encoder knows."
        )
