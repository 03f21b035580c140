"""An encoder with a map gives the mapped vectors, also in sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb_core.encoder.batching import embed_texts, pooled_vectors
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.word_vectors import WordVectors, word_encoder
from sentemb_core.errors import UsageError
from sentemb_core.postprocess import encoder_maps
from sentemb_core.postprocess.encoder_maps import with_flow, with_map, with_whitening
from sentemb_core.postprocess.normalizing_flow import fitted_flow
from sentemb_core.postprocess.whitening import fitted_whitening
from tests.encoder.starting import invented, start

TEXTS = invented(200, 9, seed=5)


def pooled(encoder: Encoder) -> np.ndarray:
    return pooled_vectors(encoder, encoder.tokenise(TEXTS))


def peer_vectors(encoder: Encoder, folder: Path) -> np.ndarray:
    """Saved and loaded, by us to the bit and by sentence-transformers."""
    save_encoder(encoder, folder, "card")
    np.testing.assert_array_equal(
        embed_texts(load_encoder(folder), TEXTS), embed_texts(encoder, TEXTS)
    )
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, show_progress_bar=False)


@pytest.mark.parametrize("keep", [None, 6])
@pytest.mark.parametrize("name", ["static", "transformer"])
def test_whitened_encoder_has_covariance_1_in_both_libraries(name, keep, tmp_path: Path):
    encoder = start(name, similarity="dot")
    white = with_whitening(encoder, pooled(encoder), keep)
    ours = embed_texts(white, TEXTS)
    assert ours.shape[1] == white.dim
    assert keep in (None, white.dim)
    expected = fitted_whitening(pooled(encoder), keep).transformed(pooled(encoder))
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    np.testing.assert_allclose(np.cov(ours.T), np.eye(white.dim), atol=1e-4)
    np.testing.assert_allclose(peer_vectors(white, tmp_path), ours, atol=2e-3)


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_soft_whitening_leaves_square_roots(name: str):
    encoder = start(name, similarity="dot")
    white, soft = (
        embed_texts(with_map(encoder, pooled(encoder), kind), TEXTS)
        for kind in ("whitening", "soft_whitening")
    )
    variances = np.linalg.eigvalsh(np.cov(pooled(encoder).T.astype(np.float64)))[::-1]
    np.testing.assert_allclose(soft, white * variances[: white.shape[1]] ** 0.25, atol=2e-3)


def test_whitening_changes_table_rows_or_adds_a_layer():
    static, transformer = start("static"), start("transformer")
    white = with_whitening(static, pooled(static), 5)
    assert (white.layers, white.backbone.embedding.weight.shape[1]) == (None, 5)
    assert [
        tuple(layer.weight.shape)
        for layer in with_whitening(transformer, pooled(transformer), 5).layers
    ] == [(5, 16)]


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_flowed_encoder_gives_latent_vectors_in_both_libraries(name, tmp_path: Path):
    encoder = start(name, similarity="dot")
    flow = fitted_flow(pooled(encoder), seed=1)
    flowing = with_flow(encoder, pooled(encoder), seed=1)
    ours = embed_texts(flowing, TEXTS)
    expected = flow(torch.from_numpy(pooled(encoder))).numpy()
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    np.testing.assert_allclose(peer_vectors(flowing, tmp_path), ours, atol=2e-3)


@pytest.mark.parametrize("finish", [with_whitening, lambda e, v: with_flow(e, v, seed=0)])
def test_map_keeps_length_1_and_the_original_encoder(finish):
    encoder = start("transformer")
    before = embed_texts(encoder, TEXTS)
    vectors = embed_texts(finish(encoder, pooled(encoder)), TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(embed_texts(encoder, TEXTS), before)
    assert encoder.layers is None


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_maps_can_be_chained(name: str):
    encoder = start(name, similarity="dot")
    flowing = with_flow(encoder, pooled(encoder), seed=1)
    white = with_whitening(flowing, pooled(flowing), 4)
    assert (len(white.layers), white.dim) == (len(flowing.layers) + 1, 4)
    np.testing.assert_allclose(np.cov(embed_texts(white, TEXTS).T), np.eye(4), atol=1e-3)


@pytest.fixture
def of_words() -> Encoder:
    vectors = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    words = ["tax", "forms", "claim", "mail", "file", "refund", "date", "sign"]
    return word_encoder(WordVectors(words, vectors), max_length=9)


KNOWN = ["tax forms", "claim", "mail mail tax", "forms file", "claim tax", "date sign refund"]


@pytest.mark.parametrize("finish", [with_whitening, lambda e, v: with_flow(e, v, seed=0)])
def test_unknown_words_change_no_vector(finish, of_words, tmp_path: Path):
    encoder, beside = of_words, [f"the {text.replace(' ', ' of ')} unheard" for text in KNOWN]
    found = finish(encoder, pooled_vectors(encoder, encoder.tokenise([*KNOWN, *beside])))
    np.testing.assert_allclose(embed_texts(found, beside), embed_texts(found, KNOWN), atol=1e-6)
    save_encoder(found, tmp_path, "card")
    peer = SentenceTransformer(str(tmp_path), device="cpu")
    texts = [*beside, "unheard of", ""]
    np.testing.assert_allclose(
        peer.encode(texts, show_progress_bar=False), embed_texts(found, texts), atol=1e-5
    )


def test_text_without_a_known_word_stays_zero(of_words):
    white = with_whitening(of_words, pooled_vectors(of_words, of_words.tokenise(KNOWN)))
    vectors = embed_texts(white, [*KNOWN, "unheard of"])
    assert (vectors @ vectors.T)[-1].tolist() == [0] * 7


def test_word_with_a_zero_coordinate_is_known(of_words, monkeypatch):
    monkeypatch.setattr(encoder_maps, "BLOCK", 3)  # fewer than the rows of the table
    table = of_words.backbone.embedding.weight.detach().numpy()
    table[table.any(axis=1).nonzero()[0][::2], 1] = 0
    vectors = pooled_vectors(of_words, of_words.tokenise(KNOWN))
    expected = fitted_whitening(vectors).transformed(vectors)
    white = with_whitening(of_words, vectors)
    found = pooled_vectors(white, white.tokenise(KNOWN))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_behind_map_uses_kind_keep_and_seed():
    encoder, processed = start("static", similarity="dot"), list[int]()
    vectors = pooled(encoder)
    for kind in ("whitening", "soft_whitening"):
        assert with_map(encoder, vectors, kind, keep=5).dim == 5
    flowing = with_map(encoder, vectors, "flow", seed=3, progress=processed.append)
    expected = with_flow(encoder, vectors, seed=3)
    np.testing.assert_array_equal(embed_texts(flowing, TEXTS), embed_texts(expected, TEXTS))
    assert processed[-1] == len(vectors)


def test_keep_above_the_dimension_is_refused():
    encoder = start("transformer")
    with pytest.raises(UsageError, match="1 to 16 of them, not 17"):
        with_whitening(encoder, pooled(encoder), 17)
