"""The paper's other clustering: one k-means over the sentences of all documents (mutual, 4.4)."""

import importlib
import logging
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32, Int64

from sentemb_core.annotation.faiss_wheels import check_faiss
from sentemb_core.annotation.pruning import by_first_appearance
from sentemb_core.annotation.similarity import require_finite
from sentemb_core.errors import BadDataError
from sentemb_core.types import Similarity

MAX_TRAINING_SENTENCES = 262_144
"""Centroids of a larger corpus are computed on a seeded sample of this size: 400 MB at 384
dimensions. By itself faiss takes 256 points a centroid without a message."""

ITERATIONS = 20
"""As in the examples of faiss; the paper states no number."""

SCORES = 1 << 22
"""Similarities to centroids in memory at once: 16 MB for any number of clusters."""

log = logging.getLogger(__name__)


def import_faiss() -> Any:
    """The faiss module.

    Raises:
        UsageError: faiss-cpu and faiss-gpu are both installed, or neither is.
    """
    check_faiss(needed=True)
    return importlib.import_module("faiss")


def training_sample(sentences: int, seed: int) -> Int64[np.ndarray, " sample"]:
    """Sentences for computing the centroids, ascending: all, or MAX_TRAINING_SENTENCES of them."""
    if sentences <= MAX_TRAINING_SENTENCES:
        return np.arange(sentences)
    drawn = np.random.default_rng(seed).choice(sentences, MAX_TRAINING_SENTENCES, replace=False)
    return np.sort(drawn)


def centroids(
    vectors: Float32[np.ndarray, "sample dim"], n_clusters: int, similarity: Similarity, seed: int
) -> Float32[np.ndarray, "clusters dim"]:
    """Centroids of k-means on these vectors: spherical for cosine, Euclidean for dot.

    Raises:
        BadDataError: There are fewer vectors than clusters.
        BadEmbeddingError: A vector is not finite.
    """
    if len(vectors) < n_clusters:
        raise BadDataError(
            f"k-means needs at least one sentence per cluster: found {len(vectors)} sentences for "
            f"{n_clusters} clusters. Lower n_clusters, or set clustering = 'partition'."
        )
    require_finite(np.einsum("nd,nd->n", vectors, vectors), np.arange(len(vectors)))
    log.info("k-means: %d clusters from %d sentences, seed %d", n_clusters, len(vectors), seed)
    kmeans = import_faiss().Kmeans(
        vectors.shape[1],
        n_clusters,
        niter=ITERATIONS,
        seed=seed,
        spherical=similarity == "cosine",
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )
    kmeans.train(np.ascontiguousarray(vectors))
    return kmeans.centroids


def nearest_centroid(
    vectors: Float32[np.ndarray, "sentences dim"],
    centroids: Float32[np.ndarray, "clusters dim"],
    similarity: Similarity,
) -> Int64[np.ndarray, " sentences"]:
    """The nearest centroid of every vector, by inner product (cosine) or distance (dot)."""
    # |x - c|^2 / -2 without |x|^2
    bias = np.einsum("cd,cd->c", centroids, centroids) / 2 if similarity == "dot" else 0.0
    nearest = np.empty(len(vectors), np.int64)
    rows = max(1, SCORES // len(centroids))
    for first in range(0, len(vectors), rows):
        block = slice(first, first + rows)
        nearest[block] = (vectors[block] @ centroids.T - bias).argmax(1)
    return nearest


def clusters_by_centroid(
    centroid: Int64[np.ndarray, " sentences"], offsets: Int64[np.ndarray, " bounds"]
) -> Int32[np.ndarray, " sentences"]:
    """Cluster labels within documents: the sentences of one document that share a centroid."""
    document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    span = int(centroid.max(initial=0)) + 1
    groups = np.unique(document * span + centroid, return_inverse=True)[1]
    return by_first_appearance(groups, offsets)
