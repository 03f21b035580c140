import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.document_vectors import write_vectors
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.errors import UsageError
from sentemb_core.evaluation.canary import (
    COUNT,
    Canaries,
    compare,
    compare_encoder,
    compared,
    read_canaries,
    spread_rows,
    write_canaries,
)
from tests.tiny import static

SENTENCES = [f"w{k} w{k + 7} w{3 * k % 60 + 4}" for k in range(5, 25)]


@pytest.fixture
def canaries(tmp_path):
    write_canaries(static(), SENTENCES[::2], tmp_path / "canaries.parquet")
    return read_canaries(tmp_path / "canaries.parquet")


def index_of(encoder, path, by="sentence"):
    """A whole index, written as `encode` writes it."""
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


def test_an_index_of_the_same_encoder_is_recognised(canaries, tmp_path):
    found = compare(canaries, index_of(static(), tmp_path / "own"))
    assert (found.same, found.found) == (True, 10)
    assert found.least_cosine == pytest.approx(1, abs=1e-6)


def test_an_index_of_another_encoder_of_the_same_size_is_not(canaries, tmp_path):
    found = compare(canaries, index_of(static(seed=1), tmp_path / "other"))
    assert not found.same
    assert found.least_cosine < 0.9
    assert "Another encoder: the least alike of 10 canaries" in found.reason


def test_a_canary_without_a_known_word_is_the_same_only_if_it_is_zero_in_both(canaries):
    stored = canaries.vectors.copy()
    stored[2] = 0
    poor = Canaries(canaries.sentences, stored)
    assert compared(poor, canaries.sentences, stored).same
    assert not compared(poor, canaries.sentences, canaries.vectors).same


def test_rounding_is_forgiven_and_a_touch_of_training_is_not(canaries):
    rounded = canaries.vectors.astype(np.float16).astype(np.float32)
    assert compared(canaries, canaries.sentences, rounded).same
    noise = np.random.default_rng(0).normal(size=rounded.shape).astype(np.float32)
    trained = canaries.vectors + 0.02 * noise
    assert not compared(canaries, canaries.sentences, trained).same


def test_vectors_of_another_size_are_of_another_encoder(canaries):
    found = compared(canaries, canaries.sentences[:3], np.ones((3, 8), np.float32))
    assert not found.same
    assert "16 dimensions expected, 8 found" in found.reason


def test_one_vector_a_little_wrong_among_the_right_ones_is_seen():
    right = np.eye(COUNT, dtype=np.float32)
    wrong = right.copy()
    wrong[4, 5] = 0.1
    many = Canaries([f"canary {k}" for k in range(COUNT)], right)
    assert compared(many, many.sentences, right).same
    found = compared(many, many.sentences, wrong)
    assert (found.same, found.least_cosine) == (False, pytest.approx(0.995, abs=1e-4))


def test_an_index_without_sentences_or_without_canaries_says_what_to_do(canaries, tmp_path):
    with pytest.raises(UsageError):
        compare(canaries, index_of(static(), tmp_path / "documents", by="document"))
    write_canaries(static(), ["w70 w71", "w72"], tmp_path / "foreign.parquet")
    with pytest.raises(UsageError):
        compare(canaries, tmp_path / "foreign.parquet")


def test_an_encoder_at_hand_knows_its_index_without_canaries(tmp_path):
    index = index_of(static(), tmp_path / "own")
    found = compare_encoder(static(), index)
    assert (found.same, found.found) == (True, len(SENTENCES))
    assert not compare_encoder(static(seed=1), index).same


@pytest.mark.parametrize(
    ("sentences", "vectors"),
    [(["w5"], ["w6"]), ([5], [[1.0]]), (["w5", "w6"], [[1.0, 0.0], [1.0]]), ([None], [None])],
)
def test_columns_of_other_things_are_no_index(tmp_path, sentences, vectors):
    index = tmp_path / "index.parquet"
    pq.write_table(pa.table({"sentence": sentences, "embedding": vectors}), index)
    with pytest.raises(UsageError):
        compare_encoder(static(), index)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no table", "empty"])
def test_what_is_no_index_is_said_to_be_none(canaries, tmp_path, content):
    index = tmp_path / "index.parquet"
    if content == "empty":
        write_canaries(static(), [], index)
    elif content is not None:
        index.write_bytes(content)
    for compare_with in (
        lambda: compare(canaries, index),
        lambda: compare_encoder(static(), index),
    ):
        with pytest.raises(UsageError):
            compare_with()


def test_vectors_are_those_of_the_encoder(canaries):
    np.testing.assert_array_equal(canaries.vectors, embed_texts(static(), canaries.sentences))


@pytest.mark.parametrize(("size", "count"), [(1, 1), (3, 3), (64, 64), (1_000, COUNT)])
def test_canaries_come_from_all_over_the_corpus(size, count):
    rows = spread_rows(size)
    assert len(rows) == count
    assert (rows[0], rows[-1]) == (0, size - 1)


def test_an_index_is_compared_without_waiting_for_torch():
    script = "import sys, sentemb_core.evaluation.canary; print('torch' in sys.modules)"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"
