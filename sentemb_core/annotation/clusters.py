"""Clusters of a corpus on disk: a label per sentence, one Parquet file per shard."""

from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int32, Int64

from sentemb_core import schemas
from sentemb_core.annotation.embeddings import delta_writer
from sentemb_core.annotation.graph import PrunedGraph
from sentemb_core.annotation.pruning import clusters
from sentemb_core.annotation.statistics import adjusted_rand
from sentemb_core.corpus.tokens import Shard, TokenCorpus
from sentemb_core.shards import by_shard
from sentemb_core.store.parts import files_in


def write_clusters(corpus: TokenCorpus, edges: Path, out: Path) -> None:
    """Write the connected components of every shard of a pruned graph (`pruning.clusters`)."""
    stored = PrunedGraph(edges, corpus)
    for shard in corpus.shards:
        labels = clusters(stored.shard(shard.index), corpus.shard_offsets(shard.index))
        write_labels(labels, shard, out)


class Clusters:
    """The clusters that `write_clusters` or `kmeans_files.write_kmeans_clusters` wrote."""

    def __init__(self, path: Path) -> None:
        self._files = files_in(path, "clusters-*.parquet")

    def shard(self, k: int) -> Int32[np.ndarray, " sentences"]:
        return pq.read_table(self._files[k], columns=["cluster"])["cluster"].to_numpy()

    def of(self, sentences: Int64[np.ndarray, " n"]) -> Int32[np.ndarray, " n"]:
        """The labels of these sentences, in the given order."""
        labels = np.empty(len(sentences), np.int32)
        for k, places, rows in by_shard(sentences, self._starts, "sentence"):
            labels[places] = self.shard(k)[rows]
        return labels

    @cached_property
    def _starts(self) -> Int64[np.ndarray, " bounds"]:
        """First sentence of each shard and, last, the number of sentences."""
        return np.cumsum([0, *(pq.read_metadata(file).num_rows for file in self._files)])


def churn(corpus: TokenCorpus, one: Clusters, other: Clusters) -> float:
    """Adjusted Rand index over the pairs of all documents of two annotations."""
    sums = np.zeros(2)
    for k in range(len(corpus.shards)):
        parts = adjusted_rand(one.shard(k), other.shard(k), corpus.shard_offsets(k))
        sums += [part.sum() for part in parts]
    return float(sums[0] / sums[1]) if sums[1] else 1.0


def write_labels(labels: Int32[np.ndarray, " sentences"], shard: Shard, out: Path) -> None:
    """Write a label for each sentence of the shard."""
    sentences = np.arange(shard.sentences.start, shard.sentences.stop)
    with delta_writer(out / f"clusters-{shard.index:05d}.parquet", schemas.CLUSTERS) as file:
        file.write_table(pa.table([sentences, labels], schema=schemas.CLUSTERS))
