"""fastText models (.bin): a word's vector is the mean of its own row and the rows of its subwords.

Subwords are the runs of `shortest` to `longest` characters of the word between < and >. The row of
a subword is its hash among the buckets (Bojanowski et al. 2017, section 3.2). The format is that of
fastText's version 12. Only listed words have a vector here, unlike in fastText.
"""

import struct
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from sentemb_core.errors import UnreadableSourceError

MAGIC = struct.pack("<i", 793_712_314)
"""The first bytes of a model."""

VERSIONS = (11, 12)
SUPERVISED = 3

SENTENCE_END = b"</s>"
"""The one word without subwords."""

FNV_START, FNV_PRIME = np.uint32(2_166_136_261), np.uint32(16_777_619)
"""Constants of the hash, FNV-1a with 32 bits; fastText sign-extends each byte."""

BATCH = 1_000
"""Words whose rows are in memory at once."""


class Subwords(NamedTuple):
    """Number of buckets, and characters of a subword; without subwords `longest` is 0."""

    buckets: int
    shortest: int
    longest: int


class _Model(NamedTuple):
    words: list[bytes]
    subwords: Subwords
    rows: Float32[np.ndarray, "words_and_buckets dim"]


def fasttext_rows(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield every word and its vector as the bytes of float32 numbers, the most frequent first.

    The matrix stays in the file; the words and the rows of a thousand of them are in memory.

    Raises:
        UnreadableSourceError: The model is truncated, compressed, or of another version.
    """
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            model = _parsed(data, path)
    except (struct.error, IndexError) as error:
        raise _cut_off(path) from error
    for first in range(0, len(model.words), BATCH):
        words = model.words[first : first + BATCH]
        for word, vector in zip(words, _vectors(model, first, words), strict=True):
            yield word, vector.tobytes()


def subword_rows(
    words: Sequence[bytes], subwords: Subwords
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """Return, for every subword, the index of its word in `words` and its bucket.

    A single letter next to < or > is no subword, as in fastText.
    """
    framed = [b"" if word == SENTENCE_END else b"<" + word + b">" for word in words]
    text = _padded(framed)
    ends = np.array([len(word) for word in framed])[:, None]
    column = np.arange(text.shape[1])
    begins = ((text & 0xC0) != 0x80) & (column < ends)  # of characters in UTF-8
    hashed = np.full(text.shape, FNV_START)
    count = np.zeros(text.shape, np.int64)
    none = np.zeros(0, np.int64)
    parts = [(none, none)]
    for width in range(1, text.shape[1] + 1):
        last = column + width - 1
        inside = last < ends
        count += _shifted(begins, width - 1)
        growing = begins & inside & (count <= subwords.longest)
        if not growing.any():
            break
        signed = _shifted(text, width - 1).view(np.int8).astype(np.int32).view(np.uint32)
        hashed = (hashed ^ signed) * FNV_PRIME  # overflow is part of the hash
        whole = _shifted(begins, width) | (last + 1 == ends)
        edge = (count == 1) & ((column == 0) | (last + 1 == ends))
        place, start = np.nonzero(growing & whole & (count >= subwords.shortest) & ~edge)
        parts.append((place, (hashed[place, start] % np.uint32(subwords.buckets)).astype(np.int64)))
    places, buckets = zip(*parts, strict=True)
    return np.concatenate(places), np.concatenate(buckets)


def _vectors(model: _Model, first: int, words: Sequence[bytes]) -> Float32[np.ndarray, "words dim"]:
    """Means over the rows of each word and of its subwords."""
    place, bucket = subword_rows(words, model.subwords)
    own = np.arange(len(words))
    owner = np.concatenate([own, place])
    order = np.argsort(owner, kind="stable")
    rows = np.concatenate([own + first, bucket + len(model.words)])[order]
    begins = np.searchsorted(owner[order], own)
    total = np.add.reduceat(model.rows[rows], begins, axis=0, dtype=np.float64)
    return (total / np.bincount(owner)[:, None]).astype(np.float32)


def _parsed(data: mmap, path: Path) -> _Model:
    """The words and the matrix, as fastText's `Args`, `Dictionary` and `Matrix` write them."""
    _, version, dim, *_, kind, buckets, shortest, longest, _, _ = struct.unpack_from("<14id", data)
    if version not in VERSIONS:
        raise UnreadableSourceError(
            f"fastText models of versions {VERSIONS} are read, and {path} has version {version}. "
            "Take the .vec file of the same vectors."
        )
    if (version == 11 and kind == SUPERVISED) or buckets < 1:
        longest = 0  # version 11 writes a length for supervised models that it does not use
    place = struct.calcsize("<14id")
    entries, n_words, _, _, pruned = struct.unpack_from("<3i2q", data, place)
    place += struct.calcsize("<3i2q")
    words: list[bytes] = []
    for _ in range(entries):
        end = data.find(b"\0", place)
        if end < 0:
            raise _cut_off(path)
        word, label = data[place:end], data[end + 9]
        place = end + 10
        if not label:
            words.append(word)
    if pruned >= 0 or data[place]:
        raise UnreadableSourceError(
            f"{path} is a compressed fastText model (.ftz). Take the .bin file that it was made "
            "from, or the .vec file of the same vectors."
        )
    height, width = struct.unpack_from("<2q", data, place + 1)
    place += 1 + struct.calcsize("<2q")
    stated = n_words + buckets, dim, n_words
    if (height, width, len(words)) != stated or buckets < 0 or width < 1:
        raise UnreadableSourceError(
            f"{path} is a damaged fastText model: its header states {n_words:,} words and "
            f"{buckets:,} buckets of {dim} numbers, found {len(words):,} words and {height:,} rows "
            f"of {width}. Download it again."
        )
    if len(data) < place + 4 * height * width:
        raise _cut_off(path)
    rows = np.memmap(path, "<f4", "r", place, (height, width))
    return _Model(words, Subwords(buckets, shortest, longest), rows)


def _padded(words: Sequence[bytes]) -> UInt8[np.ndarray, "words longest"]:
    """The bytes of each word as a row, padded with zeros."""
    longest = max(1, *map(len, words))
    joined = b"".join(word.ljust(longest, b"\0") for word in words)
    return np.frombuffer(joined, np.uint8).reshape(len(words), longest)


def _shifted(table: np.ndarray, by: int) -> np.ndarray:
    """Every row shifted to the left and filled with zeros."""
    moved = np.zeros_like(table)
    moved[:, : table.shape[1] - by] = table[:, by:]
    return moved


def _cut_off(path: Path) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"{path} is a truncated fastText model: the download may be incomplete."
    )
