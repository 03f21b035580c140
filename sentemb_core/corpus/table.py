"""documents.parquet: one row a usable document, written and read in row groups of bounded size."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core import schemas

GROUP_ROWS, GROUP_CHARACTERS = 4_096, 4 << 20  # a row group is closed at either
READ_ROWS = 128
Batch = Any  # pa.RecordBatch, which carries no types


class Document(NamedTuple):
    """One usable document; fields as in schemas.DOCUMENTS."""

    doc_id: str
    sentences: list[str]
    counterpart: str | None
    source_row: int


class DocumentWriter:
    """Writes documents as row groups of bounded size and counts what it wrote."""

    def __init__(self, path: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._file = pq.ParquetWriter(path, schemas.DOCUMENTS, compression="zstd")
        self._group: list[Document] = []
        self._characters = 0

    def write(self, found: Document) -> None:
        self._group.append(found)
        self._characters += sum(map(len, found.sentences))
        self.counts["documents"] += 1
        self.counts["sentences"] += len(found.sentences)
        self.counts["documents_with_pairs"] += len(found.sentences) > 1
        self.counts["documents_with_counterpart"] += found.counterpart is not None
        if len(self._group) >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._group:
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(
                    zip(*self._group, strict=True), schemas.DOCUMENTS, strict=True
                )
            ]
            self._file.write_table(pa.Table.from_arrays(arrays, schema=schemas.DOCUMENTS))
        self._group, self._characters = [], 0


def document_batches(documents: Path, columns: list[str]) -> Iterator[Batch]:
    """Columns of the file `documents`, in its order, a few rows at a time."""
    with pq.ParquetFile(documents, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(READ_ROWS, columns=columns, use_threads=False)


def read_documents(path: Path) -> Iterator[Document]:
    """Documents of a file in the form of schemas.DOCUMENTS."""
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        for batch in file.iter_batches(READ_ROWS, use_threads=False):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield Document(*row)
