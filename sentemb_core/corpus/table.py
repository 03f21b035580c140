"""documents.parquet, one row a usable document; Parquet files written and read in batches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core import schemas

Item = TypeVar("Item")
Batch = Any  # pa.RecordBatch, which carries no types

GROUP_ROWS, GROUP_BYTES = 65_536, 16 << 20  # a row group is closed at either
BATCH_ROWS, BATCH_CHARACTERS = 1_024, 1 << 20  # of Python objects held before they are written
READ_ROWS = 128

VOCABULARY_SENTENCES = 2_000_000
"""More sentences do not improve a vocabulary: 16,000 pieces learnt from 27,000 instead of 301,000
sentences give 0.5 % more tokens. All 30 million sentences of 4 GB would take 45 minutes."""


class Document(NamedTuple):
    """One usable document; fields as in schemas.DOCUMENTS."""

    doc_id: str
    sentences: list[str]
    counterpart: str | None
    source_row: int


class RowGroups:
    """Writes batches to a Parquet file in few, large row groups.

    Parquet keeps some kilobytes of memory for every row group until the file is closed.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._file = pq.ParquetWriter(path, schema, compression="zstd")
        self._batches: list[Batch] = []
        self._rows = self._bytes = 0

    def __enter__(self) -> "RowGroups":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def write(self, columns: Iterable[Any]) -> None:
        """Write a batch of these columns: sequences, or Arrow arrays."""
        batch = record_batch(columns, self._schema)
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        pa.default_memory_pool().release_unused()  # before a row group exists twice
        if self._batches:
            self._file.write_table(pa.Table.from_batches(self._batches, self._schema))
        self._batches = []
        self._rows = self._bytes = 0


def record_batch(columns: Iterable[Any], schema: Any) -> Batch:
    """Return a batch of these columns: sequences, or Arrow arrays."""
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def in_pieces(
    items: Iterable[Item], limits: Sequence[int], sizes: Callable[[Item], Sequence[int]]
) -> Iterator[list[Item]]:
    """Yield lists of items, in order. A list ends where a sum of its sizes reaches the limit."""
    piece: list[Item] = []
    left = list(limits)
    for item in items:
        piece.append(item)
        left = [rest - size for rest, size in zip(left, sizes(item), strict=True)]
        if min(left) <= 0:
            yield piece
            piece, left = [], list(limits)
    if piece:
        yield piece


def characters(document: Document) -> int:
    """Return the number of characters of a document's sentences."""
    return sum(map(len, document.sentences))


def write_rows(path: Path, documents: Iterable[Document]) -> Counter[str]:
    """Write a file of schemas.DOCUMENTS; return its counts by the names of `CorpusReport`."""
    counts = Counter(documents=0, sentences=0, documents_with_pairs=0, documents_with_counterpart=0)
    limits = (BATCH_ROWS, BATCH_CHARACTERS)
    with RowGroups(path, schemas.DOCUMENTS) as file:
        for batch in in_pieces(documents, limits, lambda each: (1, characters(each))):
            file.write(zip(*batch, strict=True))
            counts["documents"] += len(batch)
            for document in batch:
                counts["sentences"] += len(document.sentences)
                counts["documents_with_pairs"] += len(document.sentences) > 1
                counts["documents_with_counterpart"] += document.counterpart is not None
    return counts


def document_batches(documents: Path, columns: list[str] | None = None) -> Iterator[Batch]:
    """Yield columns (None: all) of documents.parquet in its order, a few rows at a time."""
    with pq.ParquetFile(documents, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(READ_ROWS, columns=columns, use_threads=False)


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a file with schemas.DOCUMENTS."""
    for batch in document_batches(path):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Document(*row)


def counterparts(documents: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield row, id and counterpart of each document of documents.parquet."""
    first = 0
    for batch in document_batches(documents, ["doc_id", "counterpart"]):
        ids, texts = (column.to_pylist() for column in batch.columns)
        yield from zip(range(first, first + len(batch)), ids, texts, strict=True)
        first += len(batch)


def first_sentences(documents: Path, most: int | None) -> list[str]:
    """Return the first `most` sentences of documents.parquet; all if `most` is None."""
    lists = (document.sentences for document in read_documents(documents))
    return list(islice(chain.from_iterable(lists), most))


def vocabulary_texts(documents: Path, most: int = VOCABULARY_SENTENCES) -> Iterator[str]:
    """Yield sentences of documents.parquet to learn a vocabulary from, at most `most`.

    A larger corpus gives every k-th sentence in canonical order.
    """
    step, ahead = max(1, -(-sentence_count(documents) // most)), 0
    for batch in document_batches(documents, ["sentences"]):
        texts = batch.column("sentences").flatten().to_pylist()
        yield from texts[ahead::step]
        ahead = (ahead - len(texts)) % step


def sentence_count(documents: Path) -> int:
    """Return the number of sentences in documents.parquet, from its footer."""
    return sum(chunk.num_values for chunk in _sentence_chunks(documents))


def sentence_bytes(documents: Path) -> int:
    """Return the uncompressed bytes of all sentences in documents.parquet, from its footer."""
    return sum(chunk.total_uncompressed_size for chunk in _sentence_chunks(documents))


def _sentence_chunks(documents: Path) -> list[Any]:
    footer = pq.read_metadata(documents)
    column = schemas.DOCUMENTS.get_field_index("sentences")
    return [footer.row_group(k).column(column) for k in range(footer.num_row_groups)]
