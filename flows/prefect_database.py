"""The database of a new Prefect server, from a stored schema: migrations take five seconds.

`prefect.sql` is the schema after all migrations of one version, with their revision. A newer
Prefect continues from there, as with any database of that version.

Run as a program, this file writes `prefect.sql`: `python -m flows.prefect_database`.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

SCHEMA = Path(__file__).with_name("prefect.sql")

SQLITE = "sqlite+aiosqlite:///"


def create_database() -> None:
    """Create the database of this process's settings, unless it exists or is no SQLite file."""
    from prefect.settings import get_current_settings

    url = get_current_settings().server.database.connection_url
    address = url.get_secret_value() if url else ""
    place = Path(address.removeprefix(SQLITE))
    if not address.startswith(SQLITE) or ":memory:" in address or place.exists():
        return
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    with closing(sqlite3.connect(fresh)) as database:
        database.executescript(f"BEGIN;\n{SCHEMA.read_text('utf-8')}COMMIT;\n")
    fresh.replace(place)  # a killed process leaves no part of a schema


def statements(place: Path) -> Iterator[str]:
    """Yield the statements that make an equal database; of its rows only the revision."""
    with closing(sqlite3.connect(place)) as database:
        rows = database.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        ).fetchall()
        (revision,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    yield from (" ".join(sql.split()) for (sql,) in rows)
    yield f"INSERT INTO alembic_version VALUES ('{revision}')"


def migrated(folder: Path) -> Path:
    """Return the database that Prefect's own migrations make in a folder."""
    from prefect.server.database import provide_database_interface
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

    place = folder / "prefect.db"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: f"{SQLITE}{place}"}):
        asyncio.run(provide_database_interface().create_db())
    return place


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        text = ";\n".join(statements(migrated(Path(folder))))
        SCHEMA.write_text(f"{text};\n", encoding="utf-8")
