"""Clusters of k-means on disk, apart from those of the graph: an edit here retrains no encoder."""

from pathlib import Path

from sentemb_core.annotation.clusters import write_labels
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.kmeans import (
    centroids,
    clusters_by_centroid,
    nearest_centroid,
    training_sample,
)
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.types import Similarity


def write_kmeans_clusters(
    corpus: TokenCorpus,
    vectors: Embeddings,
    n_clusters: int,
    similarity: Similarity,
    seed: int,
    out: Path,
) -> None:
    """Write the clusters of one k-means over all sentences: centroids first, then every shard.

    Raises:
        BadDataError: There are fewer sentences than clusters.
    """
    sample = vectors.rows(training_sample(len(corpus), seed))
    middle = centroids(sample, n_clusters, similarity, seed)
    for shard in corpus.shards:
        nearest = nearest_centroid(vectors.shard(shard.index), middle, similarity)
        write_labels(clusters_by_centroid(nearest, corpus.shard_offsets(shard.index)), shard, out)
