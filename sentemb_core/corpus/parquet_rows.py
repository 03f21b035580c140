"""Reader of Parquet files and Arrow batches; memory stays bounded whatever a file states.

Parquet writes a repeated text once, so a file of some kilobytes may hold gigabytes of text. Rows
are measured before they become Python objects, and only types of text and ids are decoded.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from sys import maxsize
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc  # which carries no types
import pyarrow.parquet as pq
from jaxtyping import Int64

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Columns, Row, used_columns
from sentemb_core.corpus.source import MOST_BYTES, MOST_RATIO, ROW_BYTES, most_text
from sentemb_core.corpus.table import READ_ROWS, Batch
from sentemb_core.errors import UnreadableSourceError

compute: Any = pc

BATCH_BYTES = 256 << 20
"""Bytes of text that a batch may have before its repeated texts stay references to one text."""

CHUNK_BYTES, CHUNK_RATIO = 512 << 20, 10
"""Largest column of a row group that is read: one page may hold all of it. A larger one is read if
it was compressed to no less than a tenth, as texts are."""

CHUNK_VALUES = 1 << 26
"""Most elements of all lists in a row group: nulls and repeated texts take no bytes."""

OTHER_BYTES = 1 << 16
"""Most bytes of an id and a counterpart."""

ELEMENT_BYTES = 16
"""What an element of a list counts beside its text."""


_Record = dict[str, object] | tuple[str, str | None]
"""The values of a row, or the reason code and text of a refused one."""


class _Unread:
    """A value of a type that is neither text nor id, such as a date. It is not decoded."""

    def __init__(self, kind: object) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"{self.kind}"


def parquet_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows of a Parquet file; only the used columns are read."""
    path = Path(config.source)
    with pq.ParquetFile(path) as file:
        columns = used_columns(config, file.schema_arrow.names)
        names = list(dict.fromkeys(name for name in columns if name is not None))
        leaves = [
            number
            for number in range(len(file.schema))
            if file.schema.column(number).path.partition(".")[0] in names
        ]
        texts = [
            file.schema.column(number).path
            for number in leaves
            if file.schema.column(number).physical_type == "BYTE_ARRAY"
        ]
        batch_rows = _batch_rows(path, file.metadata, leaves)
    repeated = texts if _longest_batch(path, names, texts) > BATCH_BYTES else None
    with pq.ParquetFile(
        path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=repeated
    ) as file:
        batches = file.iter_batches(batch_rows, columns=names, use_threads=False)
        yield from arrow_rows(config, columns, batches, most_text(path))


def _batch_rows(path: Path, footer: Any, leaves: list[int]) -> int:
    """Return how many rows to read at once: fewer of long texts.

    Raises:
        UnreadableSourceError: E103, a column of a row group is too large to be read.
    """
    longest = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, leaves):
            size, most = chunk.total_uncompressed_size, CHUNK_RATIO * chunk.total_compressed_size
            lists = chunk.num_values > group.num_rows
            if size > max(CHUNK_BYTES, most) or (lists and chunk.num_values > CHUNK_VALUES):
                raise UnreadableSourceError(
                    f"A row group of Parquet may have {CHUNK_BYTES >> 20} MB and "
                    f"{CHUNK_VALUES >> 20} million elements in a column; {path} has {size >> 20} "
                    f"MB and {chunk.num_values:,} in {chunk.path_in_schema}. Write it again with "
                    "smaller row groups (row_group_size)."
                )
            longest = max(longest, size // max(group.num_rows, 1))
    return max(1, min(READ_ROWS, BATCH_BYTES // 8 // max(longest, 1)))


def _longest_batch(path: Path, names: list[str], texts: list[str]) -> int:
    """Return the most bytes of a batch if every text is as long as the longest repeated one."""
    if not texts:
        return 0
    most = 0
    with pq.ParquetFile(path, pre_buffer=False, read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            elements = max(group.column(k).num_values for k in range(group.num_columns))
            a_row = -(-elements // max(group.num_rows, 1))
            batches = file.iter_batches(1, row_groups=[number], columns=names, use_threads=False)
            for column in next(batches, pa.record_batch([], names=[])).columns:
                texts_of = _flat(column)
                if pa.types.is_dictionary(texts_of.type) and len(texts_of.dictionary):
                    length = compute.max(compute.binary_length(texts_of.dictionary)).as_py() or 0
                    most = max(most, length * READ_ROWS * a_row)
    return most


def arrow_rows(
    config: CorpusConfig, columns: Columns, batches: Iterable[Batch], most: int = maxsize
) -> Iterator[Row | BadRow]:
    """Yield the rows of batches with the used columns; rows count from 0.

    Raises:
        UnreadableSourceError: E103, the rows that are not over-long have more than `most` bytes.
    """
    name = Path(config.source).name
    limit = min(ROW_BYTES, 4 * config.max_characters + OTHER_BYTES)
    number = 0
    for batch in batches:
        sizes = sum((_row_bytes(column) for column in batch.columns), np.zeros(len(batch), int))
        most -= int(sizes[sizes <= limit].sum())
        if most < 0:
            raise UnreadableSourceError(
                f"A Parquet file of texts has at most {MOST_RATIO} times its own bytes, or "
                f"{MOST_BYTES >> 20} MB; {config.source} has more, since it repeats texts. Remove "
                "repeated rows, or write it as JSONL."
            )
        for record in _records(batch, sizes.tolist(), limit):
            where = f"{name}, row {number}"
            if isinstance(record, tuple):
                yield BadRow(where, number, *record)
            else:
                yield columns.row(where, number, record)
            number += 1


def _records(batch: Batch, sizes: list[int], limit: int) -> Iterator[_Record]:
    """Yield rows, decoded some megabytes at a time."""
    first = held = 0
    for row, size in enumerate(sizes):
        if size > limit or held + size > ROW_BYTES:
            yield from _decoded(batch.slice(first, row - first))
            first, held = row, 0
        if size > limit:
            yield "over-long", None
            first = row + 1
        else:
            held += size
    yield from _decoded(batch.slice(first))


def _decoded(batch: Batch) -> Iterator[_Record]:
    try:
        columns = [_values(column) for column in batch.columns]
    except UnicodeDecodeError:
        if len(batch) == 1:
            yield "encoding", "a string that is not UTF-8"
        else:
            for row in range(len(batch)):
                yield from _decoded(batch.slice(row, 1))
        return
    names = batch.schema.names
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: Any) -> list[object]:
    """Return the values of a column; one of a type that is neither text nor id is not decoded."""
    kind, inner = column.type, _flat(column).type
    if pa.types.is_dictionary(inner):
        inner = inner.value_type
    depth = isinstance(kind, _LISTS) + 2 * (pa.types.is_nested(inner))
    if depth > 1 or not any(test(inner) for test in _READ):
        return [_Unread(kind) if valid else None for valid in column.is_valid().to_pylist()]
    return column.to_pylist()


_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)

_READ = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_null,
)


def _flat(column: Any) -> Any:
    """Return the elements of a column of lists; any other column unchanged."""
    return column.flatten() if isinstance(column.type, _LISTS) else column


def _row_bytes(column: Any) -> Int64[np.ndarray, " rows"]:
    """Return the bytes of text in each row, with `ELEMENT_BYTES` for each element of a list."""
    flat = _flat(column)
    kind = flat.type.value_type if pa.types.is_dictionary(flat.type) else flat.type
    if not any(test(kind) for test in _READ[:6]):
        sizes = np.zeros(len(flat), np.int64)
    elif pa.types.is_dictionary(flat.type):
        lengths = _lengths(flat.dictionary)
        sizes = lengths[_or_zero(flat.indices)]
    else:
        sizes = _lengths(flat)
    if flat is column:
        return sizes
    counts = _or_zero(compute.list_value_length(column))
    ends = np.cumsum(counts)
    bounds = np.concatenate([[0], np.cumsum(sizes + ELEMENT_BYTES)])
    return bounds[ends] - bounds[ends - counts]


def _lengths(texts: Any) -> Int64[np.ndarray, " n"]:
    return _or_zero(compute.binary_length(texts))


def _or_zero(numbers: Any) -> Int64[np.ndarray, " n"]:
    """Return integers, and 0 for null, from their buffers.

    `fill_null`, `to_numpy` and `to_pandas_dtype` import pandas, which takes half a second.
    """
    size, first = len(numbers), numbers.offset
    if not size:
        return np.zeros(0, np.int64)
    bits, values = numbers.buffers()
    sign = "i" if pa.types.is_signed_integer(numbers.type) else "u"
    kind = np.dtype(f"{sign}{numbers.type.bit_width // 8}")
    found = np.frombuffer(values, kind)[first : first + size]
    if numbers.null_count:
        valid = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        found = np.where(valid[first : first + size], found, 0)
    return found.astype(np.int64)
