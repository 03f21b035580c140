"""Raw rows of any source, streamed. A row that cannot be parsed is a BadRow."""

import csv
import zlib
from collections.abc import Callable, Collection, Iterator
from itertools import chain, islice

import pyarrow as pa

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.checks import BadRow
from sentemb_core.corpus.columns import Row, used_columns
from sentemb_core.corpus.csv_rows import csv_rows
from sentemb_core.corpus.folder_rows import folder_rows
from sentemb_core.corpus.json_rows import PEEK_ROWS, json_rows
from sentemb_core.corpus.parquet_rows import arrow_rows, parquet_rows
from sentemb_core.corpus.source import Format, call_datasets, source_format
from sentemb_core.corpus.table import READ_ROWS
from sentemb_core.errors import MissingColumnError, UnreadableSourceError


def rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield all rows of the source in its order, in constant memory.

    Raises:
        UnreadableSourceError: E103, the source is absent or broken as a whole.
        MissingColumnError: E104, a named column is absent.
    """
    kind = source_format(config.source)
    if config.split and kind not in ("saved", "hub"):
        raise MissingColumnError(
            f"Only data sets of `datasets` have splits; {config.source} has none. Found --split "
            f"{config.split!r}: leave it out."
        )
    try:
        yield from READERS[kind](config)
    except (pa.ArrowException, csv.Error, EOFError, zlib.error, OSError, UnicodeError) as error:
        if isinstance(error, UnreadableSourceError):
            raise
        raise UnreadableSourceError(
            f"{config.source} cannot be read as {kind}: {str(error).rstrip('.')}. {_advice(error)}"
        ) from error


def _advice(error: Exception) -> str:
    match error:
        case PermissionError():
            return "Let this user read it."
        case ConnectionError() | TimeoutError():
            return "The network failed: run again."
        case UnicodeError():
            return "Name its encoding by --encoding."
        case csv.Error():
            return "Save it with the line end \\n or \\r\\n after each row."
        case _:
            return "The file is damaged or incomplete: download it again."


def check_source(config: CorpusConfig) -> None:
    """Check that the source can be opened and has its columns, as `rows` does first.

    Raises:
        UnreadableSourceError, MissingColumnError: as `rows`.
    """
    next(rows(config), None)


def places(config: CorpusConfig, numbers: Collection[int]) -> dict[int, str]:
    """Return the places of these rows in the source, which is read again, with its ids only."""
    ids = {"text_column": config.id_column, "sentences_column": None, "counterpart_column": None}
    if source_format(config.source) == "folder":  # which has no column of texts
        ids = {"counterpart_column": None}
    place_of: dict[int, str] = {}
    for row in rows(config.model_copy(update=ids)):
        if row.number in numbers:
            place_of[row.number] = row.where
        if len(place_of) == len(numbers):
            break
    return place_of


def saved_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows of a folder that `datasets` saved. Several splits need `split`."""
    data = call_datasets("load_from_disk", config.source)
    if isinstance(data, dict):
        data = data[_split(config, list(map(str, data)))]
    columns = used_columns(config, data.column_names)
    batches = data.with_format("arrow").iter(READ_ROWS)
    tables = (batch for table in batches for batch in table.to_batches())
    yield from arrow_rows(config, columns, tables)


def hub_rows(config: CorpusConfig) -> Iterator[Row | BadRow]:
    """Yield the rows of a data set of the hub, streamed over the network or from its cache."""
    splits = call_datasets("load_dataset", config.source, streaming=True)
    records = enumerate(splits[_split(config, list(splits))])
    head = list(islice(records, PEEK_ROWS))
    if not head:
        return
    columns = used_columns(config, dict.fromkeys(name for _, record in head for name in record))
    for number, record in chain(head, records):
        yield columns.row(f"{config.source}, row {number}", number, record)


def _split(config: CorpusConfig, splits: list[str]) -> str:
    if config.split in splits:
        return str(config.split)
    if config.split is None and len(splits) == 1:
        return splits[0]
    absent = "" if config.split is None else f", and no {config.split!r}"
    raise UnreadableSourceError(
        f"{config.source} has the splits {splits}{absent}. Name one by --split."
    )


READERS: dict[Format, Callable[[CorpusConfig], Iterator[Row | BadRow]]] = {
    "jsonl": json_rows,
    "json": json_rows,
    "csv": csv_rows,
    "tsv": csv_rows,
    "parquet": parquet_rows,
    "folder": folder_rows,
    "saved": saved_rows,
    "hub": hub_rows,
}
