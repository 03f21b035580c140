"""A corpus in shards: runs of whole documents, so large that each is worth a task of its own.

A shard ends after a document whose id has a small hash. So its bounds depend on the documents near
it alone: appended, changed or removed documents change their own shards, and sometimes the next.
Documents keep their order, so all numbers of documents and sentences are those of one shard.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float64, Int64

from sentemb_core import schemas
from sentemb_core.corpus.table import GROUP_ROWS, document_batches, sentence_bytes, sentence_count
from sentemb_core.corpus.tokenise import SHARD_BYTES, SHARD_SENTENCES
from sentemb_core.corpus.validation_pool import unit_hash
from sentemb_core.errors import UsageError

BYTES = SHARD_BYTES // SHARD_SENTENCES
"""Bytes of text that count as a sentence, so that a shard of long texts fits into memory, too."""

FIRST, MOST = 64, 128
"""Full shards of a corpus at its first reading, and after it has grown: at most. Four stages run
once a shard in every round, and a run of thousands of tasks has stalled Prefect (#12877)."""


def corpus_size(documents: Path) -> int:
    """Return the sentences of documents.parquet; long ones count as several (`BYTES`)."""
    return max(sentence_count(documents), sentence_bytes(documents) // BYTES)


def shard_size(corpus: int, shards: int, least: int) -> int:
    """Return the sentences of a full shard: `least`, doubled until `shards` hold the corpus.

    65,536 are also the most in a file of tokens, and take MiniLM about a minute on two cores.
    """
    while corpus > shards * least:
        least *= 2
    return least


def shard_ends(
    sizes: Int64[np.ndarray, " documents"], hashes: Float64[np.ndarray, " documents"], full: int
) -> list[int]:
    """Return the end of each shard: the number of documents in it and before it.

    A shard has half of `full` sentences to `full`, or one longer document; the last may be smaller.

    Args:
        sizes: Sentences of each document.
        hashes: A number in [0, 1) for each document; a small one ends a shard.
        full: Most sentences of a shard.
    """
    half, ends, size = full / 2, list[int](), 0
    for row, (own, value) in enumerate(zip(sizes.tolist(), hashes.tolist(), strict=True)):
        if size and size + own > full:
            ends.append(row)
            size = 0
        size += own
        if size >= half and value * half < own:
            ends.append(row + 1)
            size = 0
    return [*ends, len(sizes)] if size else ends


def shards_of(documents: Path, full: int) -> Iterator[Any]:
    """Yield the documents of documents.parquet as one table a shard (`schemas.DOCUMENTS`).

    What reading, and not a document itself, decides is left out: counterpart and source row.

    Raises:
        UsageError: The shards would be more than `MOST`.
    """
    if (corpus := corpus_size(documents)) > MOST * full:
        raise UsageError(
            f"A corpus has at most about {MOST} shards; {corpus:,} sentences in shards of {full:,} "
            f"are {corpus // full:,}. Set corpus.shard_sentences to {corpus // MOST + 1:,} or more."
        )
    ids, sizes = _ids_and_sizes(documents)
    hashes = np.array([unit_hash("shard", doc_id) for doc_id in ids])
    held: list[Any] = []
    start = rows = 0
    batches = document_batches(documents, ["doc_id", "sentences"])
    for end in shard_ends(sizes, hashes, full):
        while rows < end - start:
            held.append(next(batches))
            rows += len(held[-1])
        table = pa.Table.from_batches(held)
        count = end - start
        yield _documents(table.slice(0, count))
        held, rows, start = table.slice(count).to_batches(), rows - count, end


def write_shard(documents: Any, out: Path) -> None:
    """Write a shard as documents.parquet; equal documents give equal bytes."""
    file = out / "documents.parquet"
    pq.write_table(documents, file, compression="zstd", row_group_size=GROUP_ROWS)


def _documents(table: Any) -> Any:
    """Return a table of schemas.DOCUMENTS in one chunk: chunks would change its bytes."""
    columns = [
        *(table[name].combine_chunks() for name in ("doc_id", "sentences")),
        pa.nulls(len(table), pa.string()),
        pa.array(np.arange(len(table))),
    ]
    return pa.table(columns, schema=schemas.DOCUMENTS)


def _ids_and_sizes(documents: Path) -> tuple[list[str], Int64[np.ndarray, " documents"]]:
    """Return the id of each document, and its size as in `corpus_size`."""
    arrow: Any = pc
    ids: list[str] = []
    sizes: list[np.ndarray] = []
    for batch in document_batches(documents, ["doc_id", "sentences"]):
        ids += batch.column("doc_id").to_pylist()
        sentences = batch.column("sentences")
        counts = sentences.value_lengths().to_numpy().astype(np.int64)
        texts = arrow.binary_length(sentences.flatten()).to_numpy()
        ends = np.append(0, np.cumsum(texts, dtype=np.int64))[np.append(0, np.cumsum(counts))]
        sizes.append(np.maximum(counts, np.diff(ends) // BYTES))
    return ids, np.concatenate(sizes) if sizes else np.zeros(0, np.int64)
