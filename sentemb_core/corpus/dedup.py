"""The first row of every key: exact, on disk, in constant memory."""

import hashlib
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb_core.errors import StorageError

FirstRows = Callable[[Sequence[bytes], Sequence[int]], list[int]]
"""Keys and their rows -> for each key the first row with it: its own row if the key is new."""

PRAGMAS = ("journal_mode=OFF", "synchronous=OFF", "cache_size=-4096")  # 4 MiB of pages in memory
CREATE = "CREATE TABLE seen (key BLOB PRIMARY KEY, row INTEGER) WITHOUT ROWID"
FIRST = "INSERT INTO seen VALUES (?, ?) ON CONFLICT DO UPDATE SET row = row RETURNING row"


def digest(*parts: str) -> bytes:
    """Return sixteen bytes of BLAKE2b over a sequence of texts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()


@contextmanager
def first_seen() -> Generator[FirstRows, None, None]:
    """Yield the look-up of first rows in a new table on disk, which is removed afterwards.

    Raises:
        StorageError: the disk of the table is full.
    """
    with (
        TemporaryDirectory(prefix="sentemb-seen-") as folder,
        closing(sqlite3.connect(Path(folder) / "seen.sqlite", isolation_level=None)) as table,
    ):

        def first_rows(keys: Sequence[bytes], rows: Sequence[int]) -> list[int]:
            table.execute("BEGIN")
            pairs = zip(keys, rows, strict=True)
            firsts = [first for pair in pairs for (first,) in table.execute(FIRST, pair)]
            table.execute("COMMIT")
            return firsts

        try:
            for pragma in PRAGMAS:
                table.execute(f"PRAGMA {pragma}").close()
            table.execute(CREATE)
            yield first_rows
        except sqlite3.OperationalError as error:
            raise StorageError(
                f"The table of ids needs space in {folder}: {error}. Free space, or set TMPDIR to "
                "a larger disk."
            ) from error
