"""One document before and after shows the clusters that the run's annotation makes."""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.annotation.embeddings import Embeddings, save_vectors
from sentemb_core.annotation.pruning import clusters, pruned_edges
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.report.examples import first_and_best, partition_by
from tests.networks import document_graph, graph_clusters, pruned


def stored(folder: Path, vectors: np.ndarray) -> Embeddings:
    save_vectors(folder / "embeddings-00000.arrow", vectors)
    return Embeddings(folder)


def test_a_document_is_clustered_as_the_rounds_cluster_it(tmp_path: Path):
    vectors = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    view = stored(tmp_path, vectors)
    rows = np.arange(10, 22)
    for settings in ({}, {"top_k": 2, "mutual": True}, {"min_distance": 2}):
        config = AnnotationConfig(**settings)
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
