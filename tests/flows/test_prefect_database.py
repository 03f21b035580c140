"""The stored schema of Prefect's database: equal to the one that its migrations make."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

from flows.prefect_database import SQLITE, create_database, migrated, statements


@pytest.fixture
def database(tmp_path: Path):
    """Settings of a server whose database does not exist yet, and its path."""
    place = tmp_path / "prefect.db"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: f"{SQLITE}{place}"}):
        yield place


def parts(statement: str) -> list[str]:
    """The words of a statement in any order: Prefect orders foreign keys differently each time."""
    return sorted(re.findall(r"[^\s,()]+", statement))


def test_a_new_database_has_the_schema_of_the_migrations(database: Path, tmp_path: Path):
    create_database()
    (tmp_path / "migrated").mkdir()
    expected = statements(migrated(tmp_path / "migrated"))
    assert sorted(map(parts, statements(database))) == sorted(map(parts, expected))


def test_a_database_that_exists_is_left_as_it_is(database: Path):
    with closing(sqlite3.connect(database)) as existing:
        existing.execute("CREATE TABLE own (id INTEGER)")
    before = database.read_bytes()
    create_database()
    assert database.read_bytes() == before
    assert [*database.parent.iterdir()] == [database]


@pytest.mark.parametrize("url", ["postgresql+asyncpg://host/prefect", f"{SQLITE}:memory:"])
def test_other_databases_are_left_to_prefect(tmp_path: Path, monkeypatch, url: str):
    monkeypatch.chdir(tmp_path)
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: url}):
        create_database()
    assert not [*tmp_path.iterdir()]
