"""A Parquet file of sentences and their vectors, opened without what an encoder needs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.errors import UsageError

COLUMNS = ["sentence", "embedding"]
"""What is compared of an index."""


def check_index(index: Path) -> None:
    """Look for the columns, before anything is loaded.

    Raises:
        UsageError: as `opened_index`.
    """
    opened_index(index).close()


def opened_index(index: Path) -> pq.ParquetFile:
    """An index of sentences, as `encode --by sentence` writes it.

    Raises:
        UsageError: It is no Parquet file, is empty, or holds no sentences or no vectors. Bad data
            would end as an index of another encoder does.
    """
    if not index.exists():
        raise UsageError(
            f"An index is a Parquet file as `encode --by sentence` writes it; {index} is none: "
            "nothing lies there."
        )
    try:
        file = pq.ParquetFile(index)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(
            f"An index is a Parquet file as `encode --by sentence` writes it; {index} is none: "
            f"{str(error).rstrip('.')}."
        ) from error
    try:
        require_sentences(file, index)
    except UsageError:
        file.close()
        raise
    return file


def require_sentences(file: pq.ParquetFile, index: Path) -> None:
    """That it holds sentences and their vectors, a row at least.

    Raises:
        UsageError: It does not.
    """
    if missing := set(COLUMNS) - set(file.schema_arrow.names):
        raise UsageError(
            f"An index is compared by its sentences and their vectors; {index} has no column "
            f"{' nor '.join(sorted(missing))}: write it with `encode --by sentence`."
        )
    if not file.metadata.num_rows:
        raise UsageError(
            f"{index} is empty: nothing in it says which encoder wrote it. Write it with "
            "`encode --by sentence`."
        )
    kinds: list[Any] = [file.schema_arrow.field(name).type for name in COLUMNS]
    texts, vectors = kinds
    if not ("string" in str(texts) and hasattr(vectors, "value_type")):
        raise UsageError(
            f"An index holds texts and vectors; in {index} are {texts}, {vectors}: write it with "
            "`encode --by sentence`."
        )
