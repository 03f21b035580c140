"""Shapes whose numbers are known: one direction, all directions, a few."""

import numpy as np
import pytest

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation import diagnostics
from sentemb_core.evaluation.diagnostics import (
    BINS,
    alignment,
    directed,
    directions,
    effective_rank,
    mean_cosine,
    shape_of,
    similarity_histogram,
    spread,
    uniformity,
)


def gaussian(n: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def test_even_directions_use_nearly_every_dimension():
    shape = shape_of(gaussian(2_000, 64), seed=0)
    assert shape.effective_rank == pytest.approx(64, rel=0.02)
    assert shape.mean_cosine == pytest.approx(0, abs=0.001)
    assert shape.uniformity == pytest.approx(-4 + 8 / 64, abs=0.02)  # log E exp(4 cos - 4)
    assert not shape.collapsed


@pytest.mark.parametrize(
    ("n", "count", "places"),
    [(0, 3, []), (2, 3, [0, 1]), (5, 3, [0, 1, 2, 3, 4]), (9, 3, [0, 3, 6]), (10, 3, [0, 3, 6, 9])],
)
def test_places_are_evenly_apart_and_at_least_as_many_as_asked_for(n, count, places):
    assert spread(n, count) == places


def test_orthogonal_vectors_have_the_effective_rank_of_their_number():
    assert effective_rank(np.eye(7, dtype=np.float32)) == pytest.approx(7)
    assert effective_rank(np.ones((9, 5), np.float32)) == pytest.approx(1)


def test_effective_rank_is_the_exponential_of_the_entropy_of_the_singular_values():
    """Shares 3/4 and 1/4: exp(H) = 4 / 27^(1/4)."""
    matrix = np.diag([3.0, 1.0]).astype(np.float32)
    assert effective_rank(matrix) == pytest.approx(4 / 27**0.25)


def test_two_opposite_points_have_the_uniformity_of_one_pair():
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
def test_the_alarm_rings_for_a_collapse(vectors: np.ndarray):
    assert shape_of(vectors, seed=0).collapsed


@pytest.mark.parametrize(("used", "collapsed"), [(6, True), (38, False)])
def test_a_handful_of_hundreds_of_dimensions_is_a_collapse_and_a_tenth_is_none(used, collapsed):
    shape = shape_of(gaussian(1_000, used) @ gaussian(used, 384, seed=1), seed=0)
    assert shape.effective_rank == pytest.approx(used, rel=0.1)
    assert shape.mean_cosine == pytest.approx(0, abs=0.01)
    assert shape.collapsed == collapsed


def test_vectors_near_one_line_are_a_collapse_however_few_their_dimensions():
    """They point both ways, so that their cosine tells nothing."""
    shape = shape_of(gaussian(500, 8) @ np.diag([1, 0.1] + 6 * [0]).astype(np.float32), seed=0)
    assert shape.mean_cosine == pytest.approx(0, abs=0.05)
    assert shape.effective_rank == pytest.approx(1.7, abs=0.2)
    assert shape.collapsed


def test_the_alarm_is_silent_for_a_common_direction_beside_which_texts_still_differ():
    assert not shape_of(0.5 + gaussian(500, 64), seed=0).collapsed


def test_the_alarm_is_silent_for_a_handful_of_good_vectors():
    assert not shape_of(np.eye(8, 256, dtype=np.float32), seed=0).collapsed


def test_a_large_matrix_is_judged_by_a_sample_of_one_seed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(diagnostics, "SAMPLE", 50)
    vectors = gaussian(400, 8)
    assert shape_of(vectors, seed=1) == shape_of(vectors, seed=1)
    assert shape_of(vectors, seed=1) != shape_of(vectors, seed=2)


def test_zero_vectors_are_left_out_of_the_shape_and_counted():
    vectors = gaussian(50, 8)
    with_zeros = np.insert(vectors, [3, 20, 50], 0, axis=0)
    with_zeros = np.concatenate([vectors[:1], with_zeros[1:]])
    found, bare = shape_of(with_zeros, seed=0), shape_of(vectors, seed=0)
    assert (found.zero_vectors, bare.zero_vectors) == (3, 0)
    assert found.effective_rank == pytest.approx(bare.effective_rank)
    assert found.mean_cosine == pytest.approx(bare.mean_cosine)
    assert found.uniformity == pytest.approx(bare.uniformity)


def test_an_encoder_that_knows_no_word_has_no_shape_and_no_similarities():
    zeros = np.zeros((9, 4), np.float32)
    with pytest.raises(BadEmbeddingError):
        shape_of(zeros, seed=0)
    with pytest.raises(BadEmbeddingError):
        directed(zeros, gaussian(9, 4))


def test_a_pair_with_a_zero_vector_is_no_similarity():
    first, second = gaussian(5, 4), gaussian(5, 4, seed=1)
    first[1], second[4] = 0, 0
    left, right = directed(first, second)
    assert (left.tolist(), right.tolist()) == (
        first[[0, 2, 3]].tolist(),
        second[[0, 2, 3]].tolist(),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused_and_named(bad: float):
    vectors = np.ones((6, 3), np.float32)
    vectors[4] = bad
    with pytest.raises(BadEmbeddingError):
        directions(vectors)


def test_directions_have_length_one():
    assert np.linalg.norm(directions(gaussian(20, 5)), axis=1) == pytest.approx(1, abs=1e-6)


def test_a_zero_vector_stays_zero_so_that_its_cosine_is_zero():
    vectors = gaussian(4, 5)
    vectors[2] = 0
    unit = directions(vectors)
    assert (unit @ unit.T)[2].tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(unit[[0, 1, 3]], directions(vectors[[0, 1, 3]]))


def test_every_pair_falls_into_one_bin_of_the_histogram_also_at_the_ends():
    first = np.array([[1, 0], [1, 0], [1, 0]], np.float32)
    second = np.array([[1.0000001, 0], [-1, 0], [0.03, 1]], np.float32)
    counts = similarity_histogram(first, second)
    assert counts.sum() == 3
    assert (counts[0], counts[-1], counts[20]) == (1, 1, 1)
    assert BINS[20] == pytest.approx(0)
