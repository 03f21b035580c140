"""documents.parquet, one row a usable document; Parquet files written and read in batches."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core import schemas

GROUP_ROWS, GROUP_BYTES = 65_536, 16 << 20  # a row group is closed at either
Batch = Any  # pa.RecordBatch, which carries no types


class RowGroups:
    """Writes batches to a Parquet file in few, large row groups.

    Parquet keeps some kilobytes of memory for every row group until the file is closed.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._file = pq.ParquetWriter(path, schema, compression="zstd")
        self._batches: list[Batch] = []
        self._rows = self._bytes = 0

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        pa.default_memory_pool().release_unused()  # before a row group exists twice
        if self._batches:
            self._file.write_table(pa.Table.from_batches(self._batches, self._schema))
        self._batches = []
        self._rows = self._bytes = 0


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


class DocumentWriter:
    """Writes documents and counts them."""

    def __init__(self, path: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._file = RowGroups(path, schemas.DOCUMENTS)
        self._batch: list[Document] = []
        self._characters = 0

    def write(self, document: Document) -> None:
        self._batch.append(document)
        self._characters += sum(map(len, document.sentences))
        self.counts["documents"] += 1
        self.counts["sentences"] += len(document.sentences)
        self.counts["documents_with_pairs"] += len(document.sentences) > 1
        self.counts["documents_with_counterpart"] += document.counterpart is not None
        if len(self._batch) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
            self._flush()

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._batch:
            columns = zip(zip(*self._batch, strict=True), schemas.DOCUMENTS, strict=True)
            arrays = [pa.array(column, field.type) for column, field in columns]
            self._file.write(pa.record_batch(arrays, schema=schemas.DOCUMENTS))
        self._batch, self._characters = [], 0


def first_sentences(documents: Path, most: int | None) -> list[str]:
    """Return the first `most` sentences of documents.parquet; all if `most` is None."""
    lists = (document.sentences for document in read_documents(documents))
    return list(islice(chain.from_iterable(lists), most))


def document_batches(documents: Path, columns: list[str]) -> Iterator[Batch]:
    """Yield columns of documents.parquet in its order, a few rows at a time."""
    with pq.ParquetFile(documents, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(READ_ROWS, columns=columns, use_threads=False)


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


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a file with schemas.DOCUMENTS."""
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        for batch in file.iter_batches(READ_ROWS, use_threads=False):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield Document(*row)
