"""An index is matched with its encoder by a few sentences."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.document_vectors import write_vectors
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.errors import UsageError
from sentemb_core.evaluation import canary
from sentemb_core.evaluation.canary import (
    COUNT,
    Canaries,
    check_index,
    match_encoder,
    match_index,
    match_vectors,
    read_canaries,
    spread_rows,
    write_canaries,
)
from sentemb_core.retriever.index import Index
from tasks.registered_encoders import check_comparable
from tests.parquet import write
from tests.retriever import made
from tests.tiny import static

SENTENCES = [f"w{k} w{k + 7} w{3 * k % 60 + 4}" for k in range(5, 25)]


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    write_canaries(static(), SENTENCES[::2], tmp_path / "canaries.parquet")
    return read_canaries(tmp_path / "canaries.parquet")


def index_of(encoder, path: Path, by: str = "sentence") -> Path:
    """A whole index, as `encode` writes it."""
    documents = {
        "doc_id": ["a", "b"],
        "sentences": [SENTENCES[:9], SENTENCES[9:]],
        "counterpart": pa.nulls(2, pa.string()),
        "source_row": [0, 1],
    }
    path.mkdir()
    pq.write_table(pa.table(documents), path / "documents.parquet")
    write_vectors(encoder, path, path / "index.parquet", by)
    return path / "index.parquet"


def test_index_matches_its_own_encoder_only(canaries, tmp_path):
    index = index_of(static(), tmp_path / "own")
    own = match_index(canaries, index)
    assert (own.same, own.found) == (True, 10)
    assert own.least_cosine == pytest.approx(1, abs=1e-6)
    other = match_index(canaries, index_of(static(seed=1), tmp_path / "other"))
    assert not other.same
    assert other.least_cosine < 0.9
    assert "10" in other.reason
    without_canaries = match_encoder(static(), index)
    assert (without_canaries.same, without_canaries.found) == (True, len(SENTENCES))
    assert not match_encoder(static(seed=1), index).same


def test_zero_vectors_match_zero_vectors_only(canaries):
    stored = canaries.vectors.copy()
    stored[2] = 0
    poor = Canaries(canaries.sentences, stored)
    assert match_vectors(poor, canaries.sentences, stored).same
    assert not match_vectors(poor, canaries.sentences, canaries.vectors).same


def test_float16_rounding_matches_and_a_little_training_does_not(canaries):
    rounded = canaries.vectors.astype(np.float16).astype(np.float32)
    assert match_vectors(canaries, canaries.sentences, rounded).same
    noise = np.random.default_rng(0).normal(size=rounded.shape).astype(np.float32)
    trained = canaries.vectors + 0.02 * noise
    assert not match_vectors(canaries, canaries.sentences, trained).same


def test_vectors_of_another_size_do_not_match(canaries):
    match = match_vectors(canaries, canaries.sentences[:3], np.ones((3, 8), np.float32))
    assert (match.same, match.least_cosine) == (False, None)
    assert "16" in match.reason
    assert "8" in match.reason


def test_one_slightly_wrong_vector_is_enough_for_a_mismatch():
    right = np.eye(COUNT, dtype=np.float32)
    wrong = right.copy()
    wrong[4, 5] = 0.1
    many = Canaries([f"canary {k}" for k in range(COUNT)], right)
    assert match_vectors(many, many.sentences, right).same
    match = match_vectors(many, many.sentences, wrong)
    assert (match.same, match.least_cosine) == (False, pytest.approx(0.995, abs=1e-4))


def test_index_without_sentences_or_without_canaries_is_refused(canaries, tmp_path):
    with pytest.raises(UsageError, match=r"lacks sentence\b.*--by sentence"):
        match_index(canaries, index_of(static(), tmp_path / "documents", by="document"))
    write_canaries(static(), ["w70 w71", "w72"], tmp_path / "foreign.parquet")
    with pytest.raises(UsageError, match=r"foreign\.parquet .*\b10\b"):
        match_index(canaries, tmp_path / "foreign.parquet")


@pytest.mark.parametrize(
    ("sentences", "vectors", "values"),
    [
        (["w5"], ["w6"], "string and string"),
        ([5], [[1.0]], r"int64 and list<.*double>"),
        (["w5", "w6"], [[1.0, 0.0], [1.0]], "3 numbers in 2 rows"),
        ([None], [None], "null and null"),
    ],
)
def test_index_columns_of_other_types_are_refused(tmp_path, sentences, vectors, values):
    index = tmp_path / "index.parquet"
    pq.write_table(pa.table({"sentence": sentences, "embedding": vectors}), index)
    with pytest.raises(UsageError, match=rf"{values}.*--by sentence"):
        match_encoder(static(), index)


def test_a_folder_of_an_index_is_refused_with_its_own_check(tmp_path):
    folder = Index.build(made.retriever(), made.documents(3), tmp_path / "index").folder
    for check in (check_index, check_comparable):
        with pytest.raises(UsageError, match="E202"):
            check(folder)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no table", "empty"])
def test_missing_broken_and_empty_files_are_refused(canaries, tmp_path, content):
    index = tmp_path / "index.parquet"
    if content == "empty":
        write_canaries(static(), [], index)
    elif content is not None:
        index.write_bytes(content)
    for match in (lambda: match_index(canaries, index), lambda: match_encoder(static(), index)):
        with pytest.raises(UsageError, match=r"index\.parquet"):
            match()


def test_refused_index_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[pq.ParquetFile] = []

    def opens(path: Path) -> pq.ParquetFile:
        opened.append(pq.ParquetFile(path))
        return opened[-1]

    other = write(tmp_path / "other.parquet", title=["a"])
    monkeypatch.setattr(canary, "pq", type("", (), {"ParquetFile": staticmethod(opens)}))
    with pytest.raises(UsageError, match=r"other\.parquet lacks embedding and sentence"):
        check_index(other)
    assert opened[0].closed


def test_vectors_are_the_encoders(canaries):
    np.testing.assert_array_equal(canaries.vectors, embed_texts(static(), canaries.sentences))


@pytest.mark.parametrize(("size", "count"), [(1, 1), (3, 3), (64, 64), (1_000, COUNT)])
def test_canaries_are_spread_over_the_corpus(size, count):
    rows = spread_rows(size)
    assert len(rows) == count
    assert (rows[0], rows[-1]) == (0, size - 1)


def test_comparison_does_not_import_torch():
    script = "import sys, sentemb_core.evaluation.canary; print('torch' in sys.modules)"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"
