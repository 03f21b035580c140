"""Neighbours of vectors whose neighbours are known."""

import numpy as np
import pytest

from sentemb_core.evaluation.diagnostics import (
    directions,
    duplicate_rate,
    hubness,
    nearest,
    positives_found,
)


def unit(*angles: float) -> np.ndarray:
    """Directions in the plane, by degrees."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_nearest_are_the_others_by_cosine_and_equals_by_place():
    assert nearest(unit(0, 10, 30, 180), 2).tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert nearest(np.ones((4, 2), np.float32), 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_hubness_of_a_star_is_the_skewness_of_its_counts():
    """The centre is nearest to all five rays, one ray to the centre: counts 5, 1, 0, 0, 0, 0.

    Mean 1, second moment 20 / 6, third 60 / 6: skewness 10 / (10 / 3)^1.5.
    """
    rays = np.eye(5) + 0.05 * np.eye(5)[[0]]
    star = directions(np.concatenate([np.ones((1, 5)), rays]).astype(np.float32))
    assert hubness(star, k=1) == pytest.approx(10 / (10 / 3) ** 1.5)


def test_where_all_are_neighbours_alike_there_is_no_hub():
    assert hubness(unit(*range(0, 360, 30)), k=2) == 0
    assert hubness(unit(0, 90, 200), k=10) == 0  # fewer than k others


def test_crowded_dimensions_make_hubs():
    rng = np.random.default_rng(0)
    few, many = (directions(rng.normal(size=(1_000, d)).astype(np.float32)) for d in (3, 100))
    shifted = directions((rng.normal(size=(1_000, 100)) + 0.3).astype(np.float32))
    assert hubness(few) < hubness(many) < hubness(shifted)


def test_a_duplicate_is_within_a_hundredth_of_another():
    found = unit(0, 2, 90, 180, 190)  # cos 2 degrees is 0.9994, cos 10 degrees 0.985
    assert duplicate_rate(found) == pytest.approx(2 / 5)


def test_a_positive_is_found_if_it_is_among_the_nearest():
    asked, sought = unit(0, 90, 180), unit(5, 100, 95)
    assert positives_found(asked, sought, k=1) == pytest.approx(1 / 3)
    assert positives_found(asked, sought, k=2) == pytest.approx(1.0)


def test_an_encoder_that_tells_nothing_apart_finds_what_chance_finds():
    same = np.ones((100, 4), np.float32)
    assert positives_found(same, same, k=5) == pytest.approx(0.05)
