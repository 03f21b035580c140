"""First rows on disk equal the first rows in a dictionary."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.corpus import dedup
from sentemb_core.corpus.dedup import digest, first_seen
from sentemb_core.errors import StorageError


@settings(max_examples=40)
@given(batches=st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8))
def test_first_rows_are_those_of_a_dictionary(batches: list[list[int]]) -> None:
    first: dict[int, int] = {}
    row = 0
    with first_seen() as first_rows:
        for batch in batches:
            rows = list(range(row, row + len(batch)))
            row += len(batch)
            wanted = [first.setdefault(key, place) for key, place in zip(batch, rows, strict=True)]
            assert first_rows([digest(str(key)) for key in batch], rows) == wanted


def test_a_digest_depends_on_where_a_text_ends() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")


def test_a_full_disk_is_e601(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "PRAGMAS", (*dedup.PRAGMAS, "max_page_count=3"))
    with (
        pytest.raises(StorageError, match=r"sentemb-seen-.*full.*TMPDIR"),
        first_seen() as first_rows,
    ):
        first_rows([digest(str(k)) for k in range(5_000)], range(5_000))


def test_a_disk_that_is_full_at_the_start_is_e601(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "CREATE", "INSERT INTO absent VALUES (1)")
    with pytest.raises(StorageError, match=r"sentemb-seen-.*absent.*TMPDIR"), first_seen():
        pass


def test_the_table_is_removed_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with first_seen() as first_rows:
        first_rows([b"key"], [0])
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
