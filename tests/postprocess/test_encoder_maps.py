"""An encoder with a map gives the mapped vectors, also in sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.encoder.batching import embed_texts, pooled_vectors
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.word_vectors import WordVectors, word_encoder
from sentemb_core.errors import UsageError
from sentemb_core.postprocess import encoder_maps
from sentemb_core.postprocess.encoder_maps import reads_directions, with_map
from sentemb_core.postprocess.normalizing_flow import fitted_flow
from sentemb_core.postprocess.whitening import SOFT, fitted_whitening
from tests.encoder.published import saved_and_read
from tests.encoder.starting import invented, start

TEXTS = invented(200, 9, seed=5)
both_kinds = pytest.mark.parametrize("name", ["static", "transformer"])
both_maps = pytest.mark.parametrize("kind", ["whitening", "flow"])


def pooled(encoder: Encoder, texts: list[str] = TEXTS) -> np.ndarray:
    return pooled_vectors(encoder, encoder.tokenise(texts))


def mapped(encoder: Encoder, kind: str, **options) -> Encoder:
    return with_map(encoder, pooled(encoder), kind, **options)


@pytest.mark.parametrize("keep", [None, 6])
@both_kinds
def test_whitened_encoder_has_covariance_1_in_both_libraries(name, keep, tmp_path: Path):
    encoder = start(name, similarity="dot")
    white = mapped(encoder, "whitening", keep=keep)
    ours = embed_texts(white, TEXTS)
    assert ours.shape[1] == white.dim
    assert keep in (None, white.dim)
    expected = fitted_whitening(pooled(encoder), keep).transformed(pooled(encoder))
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    np.testing.assert_allclose(np.cov(ours.T), np.eye(white.dim), atol=1e-4)
    saved_and_read(white, TEXTS, tmp_path, atol=2e-3)


@both_kinds
def test_soft_whitening_leaves_square_roots(name: str):
    encoder = start(name, similarity="dot")
    maps = (mapped(encoder, kind) for kind in ("whitening", "soft_whitening"))
    white, soft = (embed_texts(one, TEXTS) for one in maps)
    variances = np.linalg.eigvalsh(np.cov(pooled(encoder).T.astype(np.float64)))[::-1]
    np.testing.assert_allclose(soft, white * variances[: white.shape[1]] ** 0.25, atol=2e-3)


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_a_soft_whitening_of_cosines_reads_directions(name: str, tmp_path: Path):
    encoder = start(name)
    own, vectors = pooled(encoder), embed_texts(encoder, TEXTS)
    soft = mapped(encoder, "soft_whitening")
    assert reads_directions(encoder, "soft_whitening") == (name == "transformer")
    assert not reads_directions(encoder, "whitening"), "the paper's is fitted on pooled vectors"
    fitted = vectors if name == "transformer" else own
    expected = fitted_whitening(fitted, power=SOFT).transformed(fitted)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    ours = embed_texts(saved_and_read(soft, TEXTS, tmp_path), TEXTS)
    np.testing.assert_allclose(ours, expected, atol=2e-5)
    again = with_map(encoder, fitted, "soft_whitening")
    np.testing.assert_allclose(embed_texts(again, TEXTS), ours, atol=2e-5)
    if name == "transformer":
        known = soft.mapped(torch.from_numpy(vectors))
        np.testing.assert_allclose(known.detach().numpy(), ours, atol=2e-5)
        assert torch.equal(encoder.mapped(known), known), "without a map"


def test_whitening_changes_table_rows_or_adds_a_layer():
    table, layered = (
        mapped(start(name), "whitening", keep=5) for name in ("static", "transformer")
    )
    assert (table.layers, table.backbone.embedding.weight.shape[1]) == (None, 5)
    assert [tuple(layer.weight.shape) for layer in layered.layers] == [(5, 16)]


@both_kinds
def test_flowed_encoder_gives_latent_vectors_in_both_libraries(name, tmp_path: Path):
    encoder, processed = start(name, similarity="dot"), list[int]()
    flow = fitted_flow(pooled(encoder), seed=1)
    flowing = mapped(encoder, "flow", seed=1, progress=processed.append)
    ours = embed_texts(flowing, TEXTS)
    expected = flow(torch.from_numpy(pooled(encoder))).numpy()
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    saved_and_read(flowing, TEXTS, tmp_path, atol=2e-3)
    assert processed[-1] == len(TEXTS)


@both_maps
def test_map_keeps_length_1_and_the_original_encoder(kind):
    encoder = start("transformer")
    before = embed_texts(encoder, TEXTS)
    vectors = embed_texts(mapped(encoder, kind), TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(embed_texts(encoder, TEXTS), before)
    assert encoder.layers is None


@both_kinds
def test_maps_can_be_chained(name: str):
    flowing = mapped(start(name, similarity="dot"), "flow", seed=1)
    white = mapped(flowing, "whitening", keep=4)
    assert (len(white.layers), white.dim) == (len(flowing.layers) + 1, 4)
    np.testing.assert_allclose(np.cov(embed_texts(white, TEXTS).T), np.eye(4), atol=1e-3)


@pytest.fixture
def of_words() -> Encoder:
    vectors = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    words = ["tax", "forms", "claim", "mail", "file", "refund", "date", "sign"]
    return word_encoder(WordVectors(words, vectors), max_length=9)


KNOWN = ["tax forms", "claim", "mail mail tax", "forms file", "claim tax", "date sign refund"]


@both_maps
def test_unknown_words_change_no_vector(kind, of_words, tmp_path: Path):
    beside = [f"the {text.replace(' ', ' of ')} unheard" for text in KNOWN]
    found = with_map(of_words, pooled(of_words, [*KNOWN, *beside]), kind)
    np.testing.assert_allclose(embed_texts(found, beside), embed_texts(found, KNOWN), atol=1e-6)
    saved_and_read(found, [*beside, "unheard of", ""], tmp_path)


def test_text_without_a_known_word_stays_zero(of_words):
    white = with_map(of_words, pooled(of_words, KNOWN), "whitening")
    vectors = embed_texts(white, [*KNOWN, "unheard of"])
    assert (vectors @ vectors.T)[-1].tolist() == [0] * 7


def test_word_with_a_zero_coordinate_is_known(of_words, monkeypatch):
    monkeypatch.setattr(encoder_maps, "BLOCK", 3)  # fewer than the rows of the table
    table = of_words.backbone.embedding.weight.detach().numpy()
    table[table.any(axis=1).nonzero()[0][::2], 1] = 0
    vectors = pooled(of_words, KNOWN)
    expected = fitted_whitening(vectors).transformed(vectors)
    found = pooled(with_map(of_words, vectors, "whitening"), KNOWN)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["whitening", "soft_whitening"])
def test_keep_is_at_most_the_dimension(kind: str):
    encoder = start("static")
    assert mapped(encoder, kind, keep=5).dim == 5
    with pytest.raises(UsageError, match="1 to 16 of them, not 17"):
        mapped(encoder, kind, keep=17)
