"""One k-means over all sentences: geometry, seeds, and one faiss only."""

import numpy as np
import pytest

from sentemb_core.annotation import faiss_wheels, kmeans
from sentemb_core.annotation.kmeans import (
    centroids,
    clusters_by_centroid,
    import_faiss,
    nearest_centroid,
    training_sample,
)
from sentemb_core.errors import BadDataError, BadEmbeddingError, UsageError


def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Sixty points around three directions, far apart, and their blob."""
    rng = np.random.default_rng(0)
    blob = np.arange(60) % 3
    points = np.eye(3, 8)[blob] * 5 + rng.standard_normal((60, 8)) * 0.1
    return points.astype(np.float32), blob


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_well_separated_blobs_are_found(similarity):
    points, blob = blobs()
    found = nearest_centroid(points, centroids(points, 3, similarity, seed=0), similarity)
    assert len({*zip(found.tolist(), blob.tolist(), strict=True)}) == 3


def test_cosine_centroids_are_directions_and_dot_centroids_are_means():
    points, blob = blobs()
    spherical = centroids(points, 3, "cosine", seed=0)
    np.testing.assert_allclose(np.linalg.norm(spherical, axis=1), 1, rtol=1e-5)
    means = sorted(points[blob == b].mean(0).tolist() for b in range(3))
    np.testing.assert_allclose(sorted(centroids(points, 3, "dot", 0).tolist()), means, rtol=1e-4)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("scores", [1, 21, 64])
def test_blocks_of_rows_give_equal_labels(similarity, scores, monkeypatch):
    points, _ = blobs()
    middle = points[[3, 17, 40]]
    expected = nearest_centroid(points, middle, similarity).tolist()
    monkeypatch.setattr(kmeans, "SCORES", scores)
    assert nearest_centroid(points, middle, similarity).tolist() == expected


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_centroid_of_dot_has_the_least_distance_of_all(seed: int):
    rng = np.random.default_rng(seed)
    points, middle = (rng.standard_normal((n, 3)).astype(np.float32) * 3 for n in (200, 12))
    apart = np.linalg.norm(points[:, None].astype(np.float64) - middle, axis=2)
    assert nearest_centroid(points, middle, "dot").tolist() == apart.argmin(1).tolist()


def test_the_same_seed_gives_the_same_centroids():
    points = np.random.default_rng(4).standard_normal((500, 8)).astype(np.float32)
    one, same, other = (centroids(points, 10, "cosine", seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_clusters_share_a_document_and_a_centroid():
    offsets = np.array([20, 24, 24, 27])
    labels = clusters_by_centroid(np.array([3, 0, 3, 1, 3, 3, 0]), offsets)
    assert labels.tolist() == [0, 1, 0, 2, 0, 0, 1]


def test_large_centroid_numbers_need_no_memory():
    documents = 30_000
    offsets = 2 * np.arange(documents + 1)
    labels = clusters_by_centroid(np.full(2 * documents, 10**12), offsets)
    assert labels.tolist() == [0] * len(labels)


def test_fewer_sentences_than_clusters_are_refused():
    with pytest.raises(BadDataError, match=r"E100 .*\b4\b.*\b10\b.*n_clusters"):
        centroids(np.eye(4, dtype=np.float32), 10, "cosine", 0)


def test_a_broken_vector_is_refused_before_faiss_sees_it():
    points, _ = blobs()
    points[3, 1] = np.nan
    with pytest.raises(BadEmbeddingError, match=r"\b3,"):
        centroids(points, 3, "cosine", 0)


@pytest.mark.parametrize(
    ("installed", "values"),
    [
        ({"faiss-cpu", "faiss-gpu"}, "faiss-cpu and faiss-gpu"),
        (set(), "clustering = 'partition'"),
    ],
)
def test_two_faiss_wheels_or_none_are_refused(monkeypatch, installed, values):
    monkeypatch.setattr(faiss_wheels, "distributions", lambda name: {name} & installed)
    with pytest.raises(UsageError, match=values):
        import_faiss()


def test_a_large_corpus_is_sampled_without_repetition_and_by_seed(monkeypatch):
    assert training_sample(9, seed=0).tolist() == [*range(9)]
    monkeypatch.setattr(kmeans, "MAX_TRAINING_SENTENCES", 50)
    drawn = training_sample(1_000, seed=3)
    assert len(drawn) == 50
    assert (np.diff(drawn) > 0).all()
    assert drawn.tolist() == training_sample(1_000, seed=3).tolist()
    assert drawn.tolist() != training_sample(1_000, seed=4).tolist()


def test_dot_takes_the_nearest_centroid_not_the_longest():
    middle = np.array([[10, 0], [1, 0]], np.float32)
    point = np.array([[2, 0]], np.float32)
    assert nearest_centroid(point, middle, "dot").tolist() == [1]
    assert nearest_centroid(point, middle, "cosine").tolist() == [0]
