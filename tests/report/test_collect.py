"""One document before and after as the run's annotation clusters it, and the common axes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.pruning import clusters, pruned_edges
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.report.collect import common_axes, first_and_best, partition_by
from sentemb_core.shards import save_vectors
from tests.networks import document_graph, graph_clusters, pruned


def stored(folder: Path, vectors: np.ndarray) -> Embeddings:
    save_vectors(folder / "embeddings-00000.arrow", vectors)
    return Embeddings(folder)


def test_a_document_is_clustered_as_the_rounds_cluster_it(tmp_path: Path):
    vectors = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    view = stored(tmp_path, vectors)
    rows = np.arange(10, 22)
    for changes in ({}, {"top_k": 2, "mutual": True}, {"min_distance": 2}):
        config = AnnotationConfig(**changes)
        edges = pruned_edges(vectors, np.array([0, 10, 22, 30]), config)
        labels = clusters(edges, np.array([0, 10, 22, 30]))
        assert partition_by(view, config)(rows) == labels[10:22].tolist()
    literal = graph_clusters(pruned(document_graph(vectors[rows]), 1))
    assert partition_by(view, AnnotationConfig())(rows) == literal


def test_close_neighbours_are_not_joined(tmp_path: Path):
    """Sentences 0 and 1 are nearest; a distance of 2 forbids the pair."""
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, -0.6], [0, 1]], np.float32)
    view, rows = stored(tmp_path, vectors), np.arange(4)
    assert partition_by(view, AnnotationConfig())(rows) == [0, 0, 0, 0]
    assert partition_by(view, AnnotationConfig(min_distance=2))(rows) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("best", "after"),
    [("round 1", "round 1"), ("round 2", "round 2"), ("start", "round 2"), ("unseen", "round 2")],
)
def test_the_first_encoder_is_never_compared_with_itself(best, after):
    views = {label: lambda rows: [] for label in ("start", "round 1", "round 2")}
    assert first_and_best(views, best) == (views["start"], views[after])
    assert first_and_best({"start": views["start"]}, best) == (views["start"], views["start"])


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
