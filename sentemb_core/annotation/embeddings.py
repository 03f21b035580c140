"""Sentence vectors of a corpus on disk: one Arrow file per shard of the token cache."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float, Float32, Int64

from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import encode, naming_documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.shards import by_shard, mapped_vectors, save_vectors
from sentemb_core.store.disk import require_free
from sentemb_core.store.parts import files_in
from sentemb_core.types import Precision, Storage

log = logging.getLogger(__name__)


def write_embeddings(
    encoder: Encoder,
    corpus: TokenCorpus,
    out: Path,
    storage: Storage,
    dtype: Precision,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Encode every sentence into `out`/embeddings-*.arrow; one shard is in memory at a time.

    Storage in float16 changed no mined pair (MiniLM on 300 news documents). Its largest value is
    65,504: a shard with larger values is stored as float32, with a warning. `progress` is called
    with the number of sentences encoded so far.

    Raises:
        BadEmbeddingError: As `batching.encode`.
        StorageError: The vectors would not fit the disk. Nothing is encoded in this case.
    """
    size = len(corpus) * encoder.dim * np.dtype(storage).itemsize
    require_free(out, size, f"The vectors of {len(corpus):,} sentences")
    fresh = FreshVectors(encoder, corpus, storage, dtype)
    for shard in corpus.shards:
        vectors = fresh.encoded(shard.index, progress)
        save_vectors(out / f"embeddings-{shard.index:05d}.arrow", vectors)
        del vectors  # otherwise two shards are in memory while the next is encoded


def _stored(
    vectors: Float32[np.ndarray, "n dim"], storage: Storage, first: int
) -> Float[np.ndarray, "n dim"]:
    """The vectors in the form that is stored: all float32 if float16 cannot represent one."""
    largest = float(np.finfo(np.float16).max)
    if storage == "float16" and max(vectors.max(initial=0), -vectors.min(initial=0)) > largest:
        rows = np.flatnonzero(np.abs(vectors).max(axis=1) > largest) + first
        log.warning(
            "float16 overflows above %.0f: %d sentences have larger values, first sentence %d. "
            "Their shard is stored as float32.", largest, len(rows), rows[0],
        )  # fmt: skip
        return vectors
    return vectors.astype(storage, copy=False)


class Embeddings:
    """The vectors that `write_embeddings` wrote, in canonical order, as float32.

    A file is mapped only while it is read: mapped pages of all files add up to the corpus's size.
    """

    def __init__(self, path: Path) -> None:
        self._files = files_in(path, "embeddings-*.arrow")
        self._starts: Int64[np.ndarray, " shards+1"] = np.cumsum(
            [0, *(len(mapped_vectors(file)) for file in self._files)]
        )

    @property
    def n(self) -> int:
        """Sentences."""
        return int(self._starts[-1])

    @cached_property
    def dim(self) -> int:
        """Width of a vector; 0 without vectors."""
        return mapped_vectors(self._files[0]).shape[1] if self._files else 0

    def shard(self, k: int) -> Float32[np.ndarray, "n dim"]:
        """All vectors of one shard."""
        return mapped_vectors(self._files[k]).astype(np.float32)

    def rows(
        self, indices: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> Float32[np.ndarray, "n dim"]:
        """The vectors of these sentences, in the given order."""
        vectors = np.empty((len(indices), self.dim), dtype=np.float32)
        for k, places, rows in by_shard(indices, self._starts, "sentence"):
            vectors[places] = mapped_vectors(self._files[k])[rows]
        return vectors


@dataclass(frozen=True)
class FreshVectors:
    """Vectors of a shard, encoded on request and rounded as if they had been stored."""

    encoder: Encoder
    corpus: TokenCorpus
    storage: Storage
    dtype: Precision

    def shard(self, k: int) -> Float32[np.ndarray, "n dim"]:
        return self.encoded(k).astype(np.float32, copy=False)

    def encoded(
        self, k: int, progress: Callable[[int], None] | None = None
    ) -> Float[np.ndarray, "n dim"]:
        """The vectors of shard `k` as `write_embeddings` stores them."""
        first = self.corpus.shards[k].sentences.start
        with naming_documents(self.corpus.place):
            vectors = encode(
                self.encoder,
                self.corpus.shard_tokens(k),
                dtype=self.dtype,
                first=first,
                progress=(lambda done: progress(first + done)) if progress else None,
            )
        return _stored(vectors, self.storage, first)


def delta_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """A writer for slowly changing integers: differences in few bits, no general compression."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        column_encoding=dict.fromkeys(schema.names, "DELTA_BINARY_PACKED"),
    )
