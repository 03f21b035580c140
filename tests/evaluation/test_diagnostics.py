"""Diagnostics of vectors with known values."""

import numpy as np
import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation import diagnostics
from sentemb_core.evaluation.diagnostics import (
    BINS,
    alignment,
    directed,
    directions,
    duplicate_rate,
    effective_rank,
    hubness,
    mean_cosine,
    nearest,
    positives_found,
    shape_of,
    similarity_histogram,
    spread,
    uniformity,
)


def gaussian(n: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def test_isotropic_vectors_use_nearly_every_dimension():
    shape = shape_of(gaussian(2_000, 64), seed=0)
    assert shape.effective_rank == pytest.approx(64, rel=0.02)
    assert shape.mean_cosine == pytest.approx(0, abs=0.001)
    assert shape.uniformity == pytest.approx(-4 + 8 / 64, abs=0.02)  # log E exp(4 cos - 4)
    assert not shape.collapsed


@pytest.mark.parametrize(
    ("n", "count", "places"),
    [(0, 3, []), (2, 3, [0, 1]), (5, 3, [0, 1, 2, 3, 4]), (9, 3, [0, 3, 6]), (10, 3, [0, 3, 6, 9])],
)
def test_spread_is_even_and_has_at_least_count_places(n, count, places):
    assert spread(n, count) == places


def test_orthogonal_vectors_have_full_effective_rank():
    assert effective_rank(np.eye(7, dtype=np.float32)) == pytest.approx(7)
    assert effective_rank(np.ones((9, 5), np.float32)) == pytest.approx(1)


def test_effective_rank_has_its_hand_value():
    """Shares 3/4 and 1/4: exp(H) = 4 / 27^(1/4)."""
    matrix = np.diag([3.0, 1.0]).astype(np.float32)
    assert effective_rank(matrix) == pytest.approx(4 / 27**0.25)


def test_uniformity_of_two_opposite_points():
    unit = np.array([[1, 0], [-1, 0]], np.float32)
    assert uniformity(unit) == pytest.approx(-8)  # -2 |x - y|^2
    assert mean_cosine(unit) == -1


def test_alignment_is_the_mean_squared_distance_of_the_pairs():
    first = np.array([[1, 0], [1, 0]], np.float32)
    second = np.array([[1, 0], [0, 1]], np.float32)
    assert alignment(first, second) == 1.0


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((500, 64), np.float32) + 0.05 * gaussian(500, 64),
        gaussian(500, 2) @ gaussian(2, 64, seed=1),
        np.ones((500, 64), np.float32),
    ],
    ids=["one direction and noise", "a plane", "one point"],
)
def test_collapse_is_detected(vectors: np.ndarray):
    assert shape_of(vectors, seed=0).collapsed


@pytest.mark.parametrize(("used", "collapsed"), [(6, True), (38, False)])
def test_a_handful_of_hundreds_of_dimensions_is_a_collapse_and_a_tenth_is_none(used, collapsed):
    shape = shape_of(gaussian(1_000, used) @ gaussian(used, 384, seed=1), seed=0)
    assert shape.effective_rank == pytest.approx(used, rel=0.1)
    assert shape.mean_cosine == pytest.approx(0, abs=0.01)
    assert shape.collapsed == collapsed


def test_vectors_near_one_line_have_collapsed():
    """They point in both directions, so their mean cosine is 0."""
    shape = shape_of(gaussian(500, 8) @ np.diag([1, 0.1] + 6 * [0]).astype(np.float32), seed=0)
    assert shape.mean_cosine == pytest.approx(0, abs=0.05)
    assert shape.effective_rank == pytest.approx(1.7, abs=0.2)
    assert shape.collapsed


def test_common_direction_and_few_good_vectors_are_no_collapse():
    assert not shape_of(0.5 + gaussian(500, 64), seed=0).collapsed
    assert not shape_of(np.eye(8, 256, dtype=np.float32), seed=0).collapsed


def test_sample_depends_on_the_seed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(diagnostics, "SAMPLE", 50)
    vectors = gaussian(400, 8)
    assert shape_of(vectors, seed=1) == shape_of(vectors, seed=1)
    assert shape_of(vectors, seed=1) != shape_of(vectors, seed=2)


def test_zero_vectors_are_counted_and_left_out():
    vectors = gaussian(50, 8)
    with_zeros = np.insert(vectors, [3, 20, 50], 0, axis=0)
    with_zeros = np.concatenate([vectors[:1], with_zeros[1:]])
    found, bare = shape_of(with_zeros, seed=0), shape_of(vectors, seed=0)
    assert (found.zero_vectors, bare.zero_vectors) == (3, 0)
    assert found.effective_rank == pytest.approx(bare.effective_rank)
    assert found.mean_cosine == pytest.approx(bare.mean_cosine)
    assert found.uniformity == pytest.approx(bare.uniformity)


def test_zero_vectors_alone_are_refused():
    zeros = np.zeros((9, 4), np.float32)
    with pytest.raises(BadEmbeddingError, match=r"found 0 .* 9\b"):
        shape_of(zeros, seed=0)
    with pytest.raises(BadEmbeddingError, match="all 9 "):
        directed(zeros, gaussian(9, 4))


def test_pairs_with_a_zero_vector_are_left_out():
    first, second = gaussian(5, 4), gaussian(5, 4, seed=1)
    first[1], second[4] = 0, 0
    left, right = directed(first, second)
    assert (left.tolist(), right.tolist()) == (
        first[[0, 2, 3]].tolist(),
        second[[0, 2, 3]].tolist(),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vector_that_is_not_finite_is_refused(bad: float):
    vectors = np.ones((6, 3), np.float32)
    vectors[4] = bad
    with pytest.raises(BadEmbeddingError, match=r"1 of 6 .*row 4\b"):
        directions(vectors)


def test_directions_have_length_1_or_0():
    vectors = gaussian(4, 5)
    vectors[2] = 0
    unit = directions(vectors)
    assert np.linalg.norm(unit, axis=1) == pytest.approx([1, 1, 0, 1], abs=1e-6)
    assert (unit @ unit.T)[2].tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(unit[[0, 1, 3]], directions(vectors[[0, 1, 3]]))


def test_histogram_includes_both_ends():
    first = np.array([[1, 0], [1, 0], [1, 0]], np.float32)
    second = np.array([[1.0000001, 0], [-1, 0], [0.03, 1]], np.float32)
    counts = similarity_histogram(first, second)
    assert counts.sum() == 3
    assert (counts[0], counts[-1], counts[20]) == (1, 1, 1)
    assert BINS[20] == pytest.approx(0)


def unit(*angles: float) -> np.ndarray:
    """Directions in the plane, by degrees."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_nearest_orders_by_cosine_and_then_place():
    assert nearest(unit(0, 10, 30, 180), 2).tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert nearest(np.ones((4, 2), np.float32), 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_hubness_of_a_star_has_its_hand_value():
    """The centre is nearest to all five rays, one ray to the centre: counts 5, 1, 0, 0, 0, 0.

    Mean 1, second moment 20 / 6, third 60 / 6: skewness 10 / (10 / 3)^1.5.
    """
    rays = np.eye(5) + 0.05 * np.eye(5)[[0]]
    star = directions(np.concatenate([np.ones((1, 5)), rays]).astype(np.float32))
    assert hubness(star, k=1) == pytest.approx(10 / (10 / 3) ** 1.5)


def test_even_neighbours_have_hubness_0():
    assert hubness(unit(*range(0, 360, 30)), k=2) == 0
    assert hubness(unit(0, 90, 200), k=10) == 0  # fewer than k others


def test_hubness_grows_with_the_dimension():
    rng = np.random.default_rng(0)
    few, many = (directions(rng.normal(size=(1_000, d)).astype(np.float32)) for d in (3, 100))
    shifted = directions((rng.normal(size=(1_000, 100)) + 0.3).astype(np.float32))
    assert hubness(few) < hubness(many) < hubness(shifted)


def test_duplicates_have_a_cosine_above_0_99():
    found = unit(0, 2, 90, 180, 190)  # cos 2 degrees is 0.9994, cos 10 degrees 0.985
    assert duplicate_rate(found) == pytest.approx(2 / 5)


def test_positives_are_found_among_the_nearest():
    asked, sought = unit(0, 90, 180), unit(5, 100, 95)
    assert positives_found(asked, sought, k=1) == pytest.approx(1 / 3)
    assert positives_found(asked, sought, k=2) == pytest.approx(1.0)


def test_equal_vectors_find_positives_by_chance():
    same = np.ones((100, 4), np.float32)
    assert positives_found(same, same, k=5) == pytest.approx(0.05)
