"""Vectors on disk: shard by shard, in canonical order, in the storage asked for."""

import sys

import numpy as np
import pyarrow.ipc as ipc
import pytest
import torch

from sentemb_core import schemas
from sentemb_core.annotation.embeddings import Embeddings, FreshVectors, write_embeddings
from sentemb_core.encoder.batching import encode
from sentemb_core.errors import BadEmbeddingError
from tests.annotation.made import Corpus
from tests.encoder.starting import invented, start
from tests.mapped import mapped_files


@pytest.fixture
def encoder():
    return start("static", similarity="dot")


@pytest.fixture
def corpus(encoder):
    sequences = encoder.tokenise(invented(30, 10, seed=4))
    return Corpus([3, 4, 1, 22], cuts=(2, 3), sequences=sequences)


@pytest.mark.parametrize(("storage", "tolerance"), [("float32", 0), ("float16", 1e-3)])
def test_written_vectors_are_read_back(encoder, corpus, tmp_path, storage, tolerance):
    counts = []
    write_embeddings(encoder, corpus, tmp_path, storage, "float32", counts.append)
    stored, exact = Embeddings(tmp_path), encode(encoder, corpus.sequences)
    every = stored.rows(range(30))
    assert (every.shape, stored.dim, counts[-1]) == ((30, 16), 16, 30)
    np.testing.assert_allclose(every, exact, atol=1e-6, rtol=tolerance)
    np.testing.assert_array_equal(stored.shard(2), every[8:])
    wanted = np.array([29, 0, 7, 7, 12])
    np.testing.assert_array_equal(stored.rows(wanted), every[wanted])
    assert every.dtype == stored.shard(0).dtype == np.float32


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_file_stays_mapped(encoder, corpus, tmp_path):
    write_embeddings(encoder, corpus, tmp_path, "float16", "float32")
    stored = Embeddings(tmp_path)
    assert len(stored.shard(0)) + len(stored.rows([29])) + len(stored.rows(range(30))) == 38
    assert not mapped_files(tmp_path, 0)


@pytest.mark.parametrize("storage", ["float16", "float32"])
def test_the_files_follow_the_contract_and_repeat_byte_for_byte(encoder, corpus, tmp_path, storage):
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        write_embeddings(encoder, corpus, tmp_path / place, storage, "float32")
    first, second = (sorted((tmp_path / place).iterdir()) for place in ("first", "second"))
    assert [file.name for file in first] == [f"embeddings-{k:05d}.arrow" for k in range(3)]
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    with ipc.open_file(first[0]) as file:
        kind = file.schema.field("embedding").type.value_type
        assert file.schema == schemas.embeddings(16, kind)
        assert str(kind) == {"float16": "halffloat", "float32": "float"}[storage]


def test_values_beyond_float16_are_stored_as_float32(encoder, corpus, tmp_path, caplog):
    large = encoder.tokenizer.token_to_id("[MASK]")
    corpus.sequences[9] = np.array([large])
    with torch.no_grad():
        encoder.backbone.embedding.weight[large] = 1e7
    write_embeddings(encoder, corpus, tmp_path, "float16", "float32")
    assert [record.args[1:] for record in caplog.records] == [(1, 9)]
    stored, exact = Embeddings(tmp_path), encode(encoder, corpus.sequences)
    np.testing.assert_array_equal(stored.shard(2), exact[8:])
    np.testing.assert_array_equal(stored.shard(0), exact[:7].astype(np.float16))
    np.testing.assert_array_equal(stored.rows([9, 0])[0], np.full(16, 1e7))
    fresh = FreshVectors(encoder, corpus, "float16", "float32")
    np.testing.assert_array_equal(fresh.shard(2), stored.shard(2))


def test_a_bad_vector_has_its_sentence_and_document(encoder, corpus, tmp_path):
    unseen = encoder.tokenizer.token_to_id("[MASK]")
    corpus.sequences[9] = np.array([unseen])
    with torch.no_grad():
        encoder.backbone.embedding.weight[unseen] = float("inf")
    with pytest.raises(BadEmbeddingError) as refused:
        write_embeddings(encoder, corpus, tmp_path, "float16", "float32")
    assert refused.value.sentences == [9]
    assert "'d3'" in refused.value.documents
    with pytest.raises(BadEmbeddingError, match="'d3'"):
        FreshVectors(encoder, corpus, "float16", "float32").shard(2)


def test_a_row_outside_the_corpus_is_refused(encoder, corpus, tmp_path):
    write_embeddings(encoder, corpus, tmp_path, "float16", "float32")
    with pytest.raises(IndexError, match=r"0\.\.29"):
        Embeddings(tmp_path).rows([30])
