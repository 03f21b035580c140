"""An index of sentences, looked at before an encoder is loaded."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sentemb_core.errors import UsageError
from sentemb_core.evaluation import canary as sentence_index
from tests.parquet import write


def test_an_index_that_is_refused_is_not_left_open(tmp_path: Path, monkeypatch):
    opened: list[pq.ParquetFile] = []

    def opens(path: Path) -> pq.ParquetFile:
        opened.append(pq.ParquetFile(path))
        return opened[-1]

    other = write(tmp_path / "other.parquet", title=["a"])
    monkeypatch.setattr(sentence_index, "pq", type("", (), {"ParquetFile": staticmethod(opens)}))
    with pytest.raises(UsageError):
        sentence_index.check_index(other)
    assert opened[0].closed
