"""The chance baseline: a random direction for every text, the same every time."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64, UInt64

from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.validation_scores import Scorers, vector_scorers
from sentemb_core.evaluation.vectors import pool_vectors

DIM = 256
"""Dimensions, as of an encoder with random weights."""

BLOCK = 8_192
"""Texts at once: a text needs ten times the memory of its vector."""


def random_scorers(corpus: TokenCorpus, pool: ValidationPool, seed: int) -> Scorers:
    """Return the scores of a pool with a random direction for every distinct text."""
    vectors = pool_vectors(
        corpus,
        pool,
        rows=lambda sentences: random_vectors(corpus.text_hashes_of(sentences), DIM, seed),
        embed=lambda texts: text_vectors(texts, seed),
        similarity="cosine",
    )
    return vector_scorers(*vectors)


def random_vectors(
    hashes: Int64[np.ndarray, " n"], dim: int, seed: int
) -> Float32[np.ndarray, "n dim"]:
    """Return uniform random directions; equal hashes have equal directions."""
    vectors = np.empty((len(hashes), dim), np.float32)
    for begin in range(0, len(hashes), BLOCK):
        block = slice(begin, begin + BLOCK)
        vectors[block] = directions(_normal(hashes[block], dim, seed))
    return vectors


def _normal(hashes: Int64[np.ndarray, " n"], dim: int, seed: int) -> Float32[np.ndarray, "n dim"]:
    """Return normal coordinates by Box and Muller (1958) over hashed counters."""
    half = (dim + 1) // 2
    counters = np.arange(2 * half, dtype=np.uint64) + (np.uint64(seed) << np.uint64(32))
    bits = _mixed(_mixed(hashes.view(np.uint64))[:, None] ^ _mixed(counters))
    uniform = ((bits >> np.uint64(11)) + np.uint64(1)).astype(np.float64) / (1 << 53)
    radius, angle = np.sqrt(-2 * np.log(uniform[:, :half])), 2 * np.pi * uniform[:, half:]
    normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return normal[:, :dim].astype(np.float32)


def text_vectors(texts: Sequence[str], seed: int) -> Float32[np.ndarray, "n dim"]:
    """Return random directions of texts outside a token cache, by 64 bits of their BLAKE2b."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    hashes = np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
    return random_vectors(hashes, DIM, seed)


def _mixed(x: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """Return SplitMix64's finaliser (Steele et al. 2014): inputs give unrelated outputs."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
