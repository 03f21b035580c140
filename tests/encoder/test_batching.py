"""Encoding many sentences: in order, alone or together, once each."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.encoder import batching
from sentemb_core.encoder.batching import embed_texts, encode, length_buckets, pooled_vectors
from sentemb_core.encoder.devices import threads
from sentemb_core.errors import BadEmbeddingError
from tests.encoder.starting import start

NAMES = ["static", "transformer"]


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 40))
def test_buckets_hold_every_row_once_at_one_length_within_the_budget(lengths, budget):
    lengths = np.array(lengths, dtype=np.int64)
    buckets = length_buckets(lengths, budget)
    rows = np.concatenate(buckets) if buckets else np.empty(0)
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    for bucket in buckets:
        assert len(set(lengths[bucket].tolist())) == 1
        assert len(bucket) == 1 or lengths[bucket].sum() <= budget


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_does_not_depend_on_the_other_sentences(name, sentences):
    encoder = start(name)
    together = embed_texts(encoder, sentences)
    alone = np.concatenate([embed_texts(encoder, [sentence]) for sentence in sentences])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    backwards = embed_texts(encoder, sentences[::-1])[::-1]
    np.testing.assert_allclose(together, backwards, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parallel_batches_give_the_bits_of_sequential_batches(dtype, monkeypatch, sentences):
    monkeypatch.setattr(batching, "TOKEN_BUDGET", 24)
    encoder = start("transformer")
    found: list[np.ndarray] = []
    for count in (1, 2, 5):
        with threads(count):
            found.append(embed_texts(encoder, sentences * 3, dtype=dtype))
            assert torch.get_num_threads() == count
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_a_batch_that_fails_stops_the_others(monkeypatch):
    monkeypatch.setattr(batching, "TOKEN_BUDGET", 4)
    encoder = start("transformer")
    read: list[int] = []

    def broken(self, ids, mask=None):
        read.append(len(ids))
        time.sleep(0.01)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(type(encoder), "forward", broken)
    batches = 200
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="out of memory"):
        encode(encoder, [np.array([number, 5, 6, 7]) for number in range(batches)])
    assert len(read) < batches
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("pooling", ["mean", "cls", "cls_before_pooler", "first_last_mean"])
def test_exact_lengths_give_what_padding_and_a_mask_give(pooling, sentences):
    encoder = start("transformer", pooling=pooling).eval()
    sequences = encoder.tokenise(sentences)
    mask = np.zeros((len(sequences), max(map(len, sequences))), dtype=np.int64)
    ids = np.full_like(mask, encoder.pad_id)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    with torch.inference_mode():
        padded = encoder.vectors(encoder(torch.from_numpy(ids), torch.from_numpy(mask)))
    np.testing.assert_allclose(encode(encoder, sequences), padded.numpy(), atol=1e-6)


def test_equal_sentences_are_encoded_once(monkeypatch):
    encoder = start("static")
    rows = []
    forward = type(encoder).forward
    monkeypatch.setattr(
        type(encoder), "forward", lambda self, ids: rows.append(len(ids)) or forward(self, ids)
    )
    vectors = embed_texts(encoder, ["pay a claim", "a form", "pay a claim", "Pay a claim"])
    assert sum(rows) == 2
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(vectors[0], vectors[3])


def test_progress_counts_sentences_by_their_tokens_up_to_all_of_them():
    short = [np.array([token]) for token in range(8)]
    counts = []
    encode(start("static"), [*short, np.arange(8), np.arange(1, 9)], progress=counts.append)
    assert counts == [3, 10]  # eight of the ten sentences, 8 of their 24 tokens


@pytest.mark.parametrize("training", [True, False])
def test_encoding_has_no_dropout_and_restores_the_mode(training, sentences):
    encoder = start("transformer").train(training)
    np.testing.assert_array_equal(embed_texts(encoder, sentences), embed_texts(encoder, sentences))
    assert encoder.training == encoder.backbone.training == training


def test_bfloat16_is_close_and_comes_back_as_float32(sentences):
    encoder = start("transformer", dim=64)
    exact, rounded = (
        embed_texts(encoder, sentences, dtype=dtype) for dtype in ("float32", "bfloat16")
    )
    assert rounded.dtype == np.float32
    assert (exact != rounded).any()
    assert (exact * rounded).sum(axis=1).min() > 0.999


def test_cosine_vectors_have_length_one_and_dot_vectors_their_own(sentences):
    lengths = {
        similarity: np.linalg.norm(
            embed_texts(start("transformer", similarity=similarity), sentences), axis=1
        )
        for similarity in ("cosine", "dot")
    }
    np.testing.assert_allclose(lengths["cosine"], 1, atol=1e-6)
    assert lengths["dot"].std() > 1e-3


def test_a_long_text_is_cut_and_keeps_its_end_token():
    encoder = start("transformer", max_length=8)
    (ids,) = encoder.tokenise(["pay a claim " * 20])
    assert len(ids) == 8
    assert ids[-1] == encoder.tokenizer.token_to_id("[SEP]")
    (static,) = start("static", max_length=8).tokenise(["pay a claim " * 20])
    assert len(static) == 8
    assert encoder.tokenizer.token_to_id("[CLS]") not in static


def test_no_sentences_give_no_vectors():
    assert embed_texts(start("static"), []).shape == (0, 16)


def test_a_text_without_a_token_is_an_unknown_one():
    encoder = start("static")
    (ids,) = encoder.tokenise(["  "])
    assert ids.tolist() == [encoder.tokenizer.token_to_id("[UNK]")]


def test_vectors_that_are_not_finite_are_refused_with_their_rows():
    encoder = start("static")
    with torch.no_grad():
        encoder.backbone.embedding.weight[encoder.tokenise(["form"])[0]] = float("nan")
    sequences = encoder.tokenise(["pay", "a form", "claim", "form"])
    with pytest.raises(BadEmbeddingError, match=r"\b2 of 4\b.*\[101, 103\]"):
        encode(encoder, sequences, first=100)


def overflowing(monkeypatch, encoder, word: str) -> list[int]:
    """Rows of each forward; in bfloat16 a sentence with the word has an infinite vector."""
    passes = []
    (token,) = encoder.tokenise([word])[0].tolist()
    forward = type(encoder).forward

    def overflow(self, ids):
        passes.append(len(ids))
        infinite = (ids == token).any(dim=1, keepdim=True) & torch.is_autocast_enabled("cpu")
        return forward(self, ids).masked_fill(infinite, float("inf"))

    monkeypatch.setattr(type(encoder), "forward", overflow)
    return passes


def test_rows_that_overflow_bfloat16_are_encoded_in_float32(monkeypatch, caplog):
    encoder = start("static")
    sequences = encoder.tokenise(["pay", "a form", "claim", "form"])
    exact = encode(encoder, sequences)
    passes = overflowing(monkeypatch, encoder, "form")
    found = encode(encoder, sequences, dtype="bfloat16", first=100)
    np.testing.assert_array_equal(found[[1, 3]], exact[[1, 3]])
    assert [record.args for record in caplog.records] == [(2, 4, 101)]
    assert sum(passes) == 4 + 2
    np.testing.assert_array_equal(
        pooled_vectors(encoder, sequences, dtype="bfloat16")[3],
        pooled_vectors(encoder, sequences)[3],
    )


def test_rows_are_encoded_again_in_float32_once_only(monkeypatch, caplog):
    encoder = start("static")
    with torch.no_grad():
        encoder.backbone.embedding.weight[encoder.tokenise(["form"])[0]] = float("nan")
    passes = overflowing(monkeypatch, encoder, "form")
    with pytest.raises(BadEmbeddingError, match=r"\b1 of 2\b.*\[1\]"):
        encode(encoder, encoder.tokenise(["pay", "form"]), dtype="bfloat16")
    assert sum(passes) == 2 + 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("name", "similarity", "refused"),
    [("transformer", "cosine", True), ("transformer", "dot", False), ("static", "cosine", False)],
)
def test_a_zero_vector_is_refused_only_for_a_transformer_with_cosine(name, similarity, refused):
    encoder = start(name, similarity=similarity)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.zero_()
    if refused:
        with pytest.raises(BadEmbeddingError) as refusal:
            embed_texts(encoder, ["a form"])
        assert refusal.value.sentences == [0]
    else:
        assert not embed_texts(encoder, ["a form"]).any()


@pytest.mark.parametrize("name", NAMES)
def test_pooled_vectors_are_the_vectors_of_dot(name, sentences):
    cosine, dot = (start(name, similarity=similarity) for similarity in ("cosine", "dot"))
    pooled = pooled_vectors(cosine, cosine.tokenise(sentences))
    np.testing.assert_array_equal(pooled, embed_texts(dot, sentences))
    assert np.linalg.norm(pooled, axis=1).std() > 1e-3


def test_an_encoder_begins_without_dropout():
    for name in NAMES:
        assert not any(module.training for module in start(name).modules())


def test_dropout_is_there_for_training():
    encoder = start("transformer").train()
    ids = torch.from_numpy(np.stack(encoder.tokenise(["file a form"] * 2)))
    first, second = encoder(ids)
    assert not torch.equal(first, second)
