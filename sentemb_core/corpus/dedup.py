"""The first row of every key: exact, on disk, in constant memory."""

import hashlib
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb_core.errors import StorageError

CACHE_KIB = 4_096  # of SQLite's pages in memory
CREATE = "CREATE TABLE seen (key BLOB PRIMARY KEY, row INTEGER) WITHOUT ROWID"
LOOK_UP = 512  # keys per query: below SQLite's smallest limit of variables
QUERY = f"SELECT key, row FROM seen WHERE key IN ({','.join('?' * LOOK_UP)})"


def digest(*parts: str) -> bytes:
    """Return sixteen bytes of BLAKE2b over a sequence of texts."""
    state = hashlib.blake2b(digest_size=16)
    state.update("\0".join(parts).encode())
    return state.digest()


class FirstSeen:
    """A table on disk, digest -> first row. Its memory is one page cache for any number of keys."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="sentemb-seen-")
        self._db = sqlite3.connect(Path(self._folder.name) / "seen.sqlite", isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{CACHE_KIB}"):
            self._db.execute(f"PRAGMA {pragma}").close()
        try:
            with self._on_disk():
                self._db.execute(CREATE)
        except StorageError:
            self.__exit__()
            raise

    def __enter__(self) -> "FirstSeen":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._folder.cleanup()

    def first_rows(self, keys: Sequence[bytes], rows: Sequence[int]) -> list[int]:
        """Return for each key the first row with it: its own row if the key is new."""
        known = self._known(keys)
        new: dict[bytes, int] = {}
        for key, row in zip(keys, rows, strict=True):
            if key not in known:
                new.setdefault(key, row)
        self._insert(new)
        known |= new
        return [known[key] for key in keys]

    def _insert(self, new: dict[bytes, int]) -> None:
        with self._on_disk():
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO seen VALUES (?, ?)", sorted(new.items()))
            self._db.execute("COMMIT")

    @contextmanager
    def _on_disk(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StorageError(
                f"The table of ids needs space in {self._folder.name}: {error}. Free space, or set "
                "TMPDIR to a larger disk."
            ) from error

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        known: dict[bytes, int] = {}
        for start in range(0, len(keys), LOOK_UP):
            chunk = keys[start : start + LOOK_UP]
            # always equally many: another length would be another compiled query in memory
            padded = [*chunk, *[b""] * (LOOK_UP - len(chunk))]
            with closing(self._db.execute(QUERY, padded)) as rows:
                known.update(rows)
        return known
