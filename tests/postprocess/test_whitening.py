"""Whitened vectors have covariance 1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from sentemb_core.encoder.devices import threads
from sentemb_core.errors import BadEmbeddingError, UsageError
from sentemb_core.postprocess import whitening
from sentemb_core.postprocess.whitening import fitted_whitening


def drawn(seed: int, n: int, dim: int) -> np.ndarray:
    """Correlated coordinates of very different sizes, far from 0, as those of BERT."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.normal(size=(dim, dim))).Q * rng.uniform(0.1, 5, dim)
    mixed = rng.normal(size=(n, dim)) @ turned
    return (mixed + rng.normal(size=dim) * 10).astype(np.float32)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 12), data=st.data())
def test_whitened_vectors_have_covariance_1_and_mean_0(seed, dim, data):
    keep = data.draw(st.integers(1, dim))
    vectors = drawn(seed, 40 + 10 * dim, dim)
    white = fitted_whitening(vectors, keep).transformed(vectors)
    assert white.shape == (len(vectors), keep)
    covariance = np.atleast_2d(np.cov(white, rowvar=False))
    np.testing.assert_allclose(covariance, np.eye(keep), atol=1e-8)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-8)


def test_covariance_has_ten_digits_at_minilms_width():
    vectors = np.random.default_rng(0).normal(size=(2000, 384)).astype(np.float32)
    for keep in (None, 256):
        white = fitted_whitening(vectors, keep).transformed(vectors)
        error = np.abs(np.cov(white, rowvar=False) - np.eye(white.shape[1])).max()
        assert error < 1e-10


def test_four_points_have_their_hand_values():
    """Variances 8/3 and 2/3 without covariance: the second axis goes first."""
    points = np.array([[1, 0], [-1, 0], [0, 2], [0, -2]], np.float32) + np.float32(7)
    white = fitted_whitening(points).transformed(points)
    far = 1.5**0.5
    np.testing.assert_allclose(white, [[0, far], [0, -far], [far, 0], [-far, 0]], atol=1e-12)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 12), power=st.floats(0, 1, exclude_max=True)
)
def test_power_leaves_the_rest_of_the_variance(seed: int, dim: int, power: float):
    """Variances lambda^(1 - power) on the axes, in the order of the whole whitening's."""
    vectors = drawn(seed, 40 + 10 * dim, dim)
    soft = fitted_whitening(vectors, power=power).transformed(vectors)
    variances = np.linalg.eigvalsh(np.atleast_2d(np.cov(vectors.astype(np.float64).T)))[::-1]
    covariance = np.atleast_2d(np.cov(soft, rowvar=False))
    np.testing.assert_allclose(covariance, np.diag(variances ** (1 - power)), atol=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(-20, 20))
def test_shift_changes_no_cosine(seed: int, shift: float):
    vectors = drawn(seed, 80, 6).astype(np.float64)
    near = fitted_whitening(vectors).transformed(vectors)
    far = fitted_whitening(vectors + shift).transformed(vectors + shift)
    np.testing.assert_allclose(unit(far) @ unit(far).T, unit(near) @ unit(near).T, atol=1e-7)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_kept_dimensions_are_the_first_of_the_full_map():
    vectors = drawn(1, 100, 8)
    whole, part = fitted_whitening(vectors), fitted_whitening(vectors, 3)
    np.testing.assert_array_equal(part.weights, whole.weights[:, :3])


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 12))
def test_largest_coordinate_of_an_axis_is_positive(seed: int, dim: int):
    """An eigenvector has two signs: which of them comes is the library's whim."""
    weights = fitted_whitening(drawn(seed, 40 + 10 * dim, dim)).weights
    assert (weights.max(axis=0) == np.abs(weights).max(axis=0)).all()


def test_blocks_keep_the_whitening(monkeypatch: pytest.MonkeyPatch):
    vectors = drawn(2, 100, 8)
    whole = fitted_whitening(vectors)
    monkeypatch.setattr(whitening, "BLOCK", 7)
    np.testing.assert_allclose(fitted_whitening(vectors).weights, whole.weights, rtol=1e-6)


def test_whitening_is_the_same_for_any_number_of_threads():
    """Neither numpy's, which threadpoolctl sets, nor torch's; narrow ones are not shared out."""
    vectors = np.random.default_rng(0).normal(size=(2000, 384)).astype(np.float32)
    found: set[bytes] = set()
    for count in (1, 2, 3):
        with threads(count), threadpool_limits(count):
            fitted = fitted_whitening(vectors)
            bias = fitted.linear().bias.detach().numpy()
            found.add(b"".join(map(bytes, (fitted.weights, fitted.transformed(vectors), bias))))
    assert len(found) == 1


def test_too_few_and_constant_vectors_are_refused():
    with pytest.raises(BadEmbeddingError, match="5 vectors of 8 dimensions vary in 4, not 8"):
        fitted_whitening(drawn(0, 5, 8), 8)
    assert fitted_whitening(drawn(0, 5, 8), 4).weights.shape == (8, 4)
    with pytest.raises(BadEmbeddingError, match="9 vectors of 4 dimensions vary in 0"):
        fitted_whitening(np.ones((9, 4), np.float32))
    with pytest.raises(BadEmbeddingError, match="1 vectors of 4 dimensions vary in 0"):
        fitted_whitening(drawn(0, 1, 4))
    with pytest.raises(BadEmbeddingError, match="not finite"):
        fitted_whitening(np.full((9, 4), np.nan, np.float32))
    for keep in (0, 9):
        with pytest.raises(UsageError, match=rf"1 to 8 of them, not {keep}\b"):
            fitted_whitening(drawn(0, 99, 8), keep)


def test_default_keeps_all_varying_directions():
    vectors = drawn(3, 100, 6)
    vectors[:, 4] = 0.5 + vectors[:, 1] * 1e-8  # nothing but rounding
    white = fitted_whitening(vectors)
    assert white.weights.shape == (6, 5)
    np.testing.assert_allclose(np.cov(white.transformed(vectors).T), np.eye(5), atol=1e-8)


def test_small_deviation_above_rounding_is_kept():
    vectors = np.random.default_rng(4).normal(size=(200, 3)).astype(np.float32)
    vectors[:, 2] *= 1e-4
    assert fitted_whitening(vectors).weights.shape == (3, 3)
