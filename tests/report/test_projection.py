import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.report.collect import common_axes


def rounds_of(seed):
    """Three rounds of twenty sentences, 6 wide."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(20, 6)).astype(np.float32) for _ in range(3)]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_all_axes_together_keep_every_distance(seed):
    vectors = np.concatenate(rounds_of(seed))
    points = np.concatenate(common_axes(rounds_of(seed), n=6))
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    shown = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.testing.assert_allclose(shown, apart, atol=1e-4)


def test_the_first_axis_spreads_most_and_the_centre_is_zero():
    everything = np.concatenate(common_axes(rounds_of(2)))
    assert everything[:, 0].var() >= everything[:, 1].var()
    np.testing.assert_allclose(everything.mean(0), 0, atol=1e-5)


def test_a_known_direction_is_found_with_its_sign():
    line = np.outer(np.linspace(-1, 1, 9), [3.0, 4.0]).astype(np.float32)
    (points,) = common_axes([line], n=1)
    np.testing.assert_allclose(points[:, 0], np.linspace(-5, 5, 9), atol=1e-5)


def test_equal_rounds_have_equal_places():
    first, second = common_axes([rounds_of(1)[0]] * 2)
    np.testing.assert_array_equal(first, second)


def test_rounds_may_differ_in_size_and_not_in_width():
    sizes = [len(points) for points in common_axes([rounds_of(0)[0][:5], rounds_of(0)[1]])]
    assert sizes == [5, 20]
    with pytest.raises((ValueError, TypeError)):
        common_axes([rounds_of(0)[0], rounds_of(0)[1][:, :3]])
