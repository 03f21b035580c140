"""The annotation of a corpus on disk: shard by shard, so that memory holds one shard.

`write_graph` -> `write_edges` -> `write_clusters` -> `write_pairs`, or `write_kmeans_clusters` in
place of the middle two. A shard of every artifact covers the sentences of the same shard of the
token cache, and equal input gives equal bytes.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float32, Int32, Int64

from sentemb_core import schemas
from sentemb_core.encoder.batching import Precision, encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.shards import Storage, stored
from sentemb_core.errors import EmptyPairsError
from sentemb_core.idc.components import clusters
from sentemb_core.idc.kmeans import (
    centroids,
    clusters_by_centroid,
    nearest_centroid,
    training_sample,
)
from sentemb_core.idc.pairs import Chunk, cluster_pairs
from sentemb_core.idc.pruning import Edges, prune_to_top_k
from sentemb_core.idc.similarity import Neighbours, neighbours
from sentemb_core.idc.stats import (
    WARN_ABOVE,
    ClusterStatistics,
    cluster_statistics,
    lexical_overlap,
    pairs_of,
)
from sentemb_core.types import Json, Similarity

MIN_GIVING_SHARE = 0.02
"""Documents that must give a pair, of those that are not held out (RELIABILITY.md 2, E102)."""

OVERLAP_SAMPLE = 1_000
"""Pairs whose lexical overlap is measured."""

log = logging.getLogger(__name__)


@runtime_checkable
class Shard(Protocol):
    """A run of whole documents."""

    @property
    def index(self) -> int: ...
    @property
    def documents(self) -> slice: ...
    @property
    def sentences(self) -> slice: ...


@runtime_checkable
class Corpus(Protocol):
    """What annotation needs of `corpus.tokens.TokenCorpus`."""

    @property
    def shards(self) -> Sequence[Shard]: ...
    @property
    def offsets(self) -> Int64[np.ndarray, " bounds"]: ...
    @property
    def held_out(self) -> Bool[np.ndarray, " documents"]: ...
    def __len__(self) -> int: ...
    def tokens(self, sentences: Int64[np.ndarray, " n"]) -> Sequence[np.ndarray]: ...
    def texts(self, sentences: Int64[np.ndarray, " n"]) -> list[str]: ...


@runtime_checkable
class Vectors(Protocol):
    """What annotation needs of `encoder.shards.Embeddings`."""

    def shard(self, k: int) -> Float32[np.ndarray, "sentences dim"]: ...


@dataclass(frozen=True)
class FreshVectors:
    """The vectors of a shard, encoded when asked for and rounded as if they had been stored."""

    encoder: Encoder
    corpus: Corpus
    storage: Storage
    dtype: Precision

    def shard(self, k: int) -> Float32[np.ndarray, "sentences dim"]:
        sentences = self.corpus.shards[k].sentences
        tokens = self.corpus.tokens(np.arange(sentences.start, sentences.stop))
        vectors = encode(self.encoder, tokens, dtype=self.dtype, first=sentences.start)
        return stored(vectors, self.storage, sentences.start).astype(np.float32)


def write_graph(corpus: Corpus, vectors: Vectors, degree: int, out: Path) -> None:
    """Each sentence's `degree` strongest neighbours (`similarity.neighbours`).

    Raises BadEmbeddingError if a vector is not finite.
    """
    for shard in corpus.shards:
        near = neighbours(vectors.shard(shard.index), shard_offsets(corpus, shard), degree)
        schema = schemas.graph(degree).with_metadata({"first_sentence": str(near.first)})
        columns = [
            pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), degree)
            for column in (near.index, near.weight)
        ]
        _write_arrow(out / f"graph-{shard.index:05d}.arrow", columns, schema)


def write_graph_fused(
    encoder: Encoder,
    corpus: Corpus,
    degree: int,
    storage: Storage,
    dtype: Precision,
    out: Path,
) -> None:
    """The graph without keeping vectors: byte for byte that of `write_graph` on stored ones."""
    write_graph(corpus, FreshVectors(encoder, corpus, storage, dtype), degree, out)


def write_edges(graph: Path, top_k: int, mutual: bool, out: Path) -> None:
    """Prune every shard of a graph (`pruning.prune_to_top_k`)."""
    stored = Graph.open(graph)
    for k in range(len(stored)):
        edges = prune_to_top_k(stored.shard(k), top_k, mutual=mutual)
        columns = [pa.array(edges.i), pa.array(edges.j), pa.array(edges.weight)]
        _write_arrow(out / f"edges-{k:05d}.arrow", columns, schemas.EDGES)


def write_clusters(corpus: Corpus, edges: Path, out: Path) -> None:
    """Connected components of every shard of a pruned graph (`components.clusters`)."""
    stored = PrunedGraph.open(edges)
    for shard in corpus.shards:
        labels = clusters(stored.shard(shard.index), shard_offsets(corpus, shard))
        _write_labels(labels, shard, out)


def write_kmeans_clusters(
    corpus: Corpus,
    vectors: Vectors,
    n_clusters: int,
    similarity: Similarity,
    seed: int,
    out: Path,
) -> None:
    """Cluster by one k-means over all sentences (`kmeans`): centroids first, then every shard.

    Raises BadDataError if there are fewer sentences than clusters.
    """
    sample = training_sample(len(corpus), seed)
    bounds = np.searchsorted(sample, [shard.sentences.start for shard in corpus.shards])
    parts = np.split(sample, bounds[1:])
    drawn = [
        vectors.shard(shard.index)[part - shard.sentences.start]
        for shard, part in zip(corpus.shards, parts, strict=True)
    ]
    middle = centroids(np.concatenate(drawn), n_clusters, similarity, seed)
    for shard in corpus.shards:
        nearest = nearest_centroid(vectors.shard(shard.index), middle, similarity)
        _write_labels(clusters_by_centroid(nearest, shard_offsets(corpus, shard)), shard, out)


def write_pairs(
    corpus: Corpus, labels: Path, max_partners: int | None, seed: int, out: Path
) -> Json:
    """Pairs of all documents that are not held out (`pairs.cluster_pairs`), and the report.

    The report, also in `out`/report.json, counts what was kept (share of all intra-document pairs
    that share a cluster) and what the cap of partners dropped of it; a kept share above WARN_ABOVE
    is logged as a warning.

    Raises EmptyPairsError if fewer than 2 % of the documents, or fewer than two, give a pair.
    """
    total = ClusterStatistics()
    stored = Clusters.open(labels)
    for shard in corpus.shards:
        offsets, held_out = shard_offsets(corpus, shard), corpus.held_out[shard.documents]
        shard_labels = stored.shard(shard.index)
        total += cluster_statistics(shard_labels, offsets, held_out)
        chunks = cluster_pairs(
            shard_labels, offsets, held_out=held_out, max_partners=max_partners, seed=seed
        )
        _write_pairs(chunks, out / f"pairs-{shard.index:05d}.parquet")
    _require_pairs(total)
    report = _report(total, int(corpus.held_out.sum()), max_partners)
    report["lexical_overlap"] = _sampled_overlap(corpus, Pairs.open(out), seed)
    (out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def shard_offsets(corpus: Corpus, shard: Shard) -> Int64[np.ndarray, " bounds"]:
    """First sentences of the shard's documents, and its end."""
    return corpus.offsets[shard.documents.start : shard.documents.stop + 1]


@dataclass(frozen=True)
class Graph:
    """What `write_graph` wrote."""

    files: list[Path]

    @classmethod
    def open(cls, path: Path) -> "Graph":
        return cls(sorted(path.glob("graph-*.arrow")))

    def __len__(self) -> int:
        """Shards."""
        return len(self.files)

    def shard(self, k: int) -> Neighbours:
        batch = _read_arrow(self.files[k])
        degree = batch.schema.field("neighbour").type.list_size
        first = int(batch.schema.metadata[b"first_sentence"])
        index, weight = (
            column.flatten().to_numpy().reshape(-1, degree) for column in batch.columns
        )
        return Neighbours(first, index, weight)


@dataclass(frozen=True)
class PrunedGraph:
    """What `write_edges` wrote."""

    files: list[Path]

    @classmethod
    def open(cls, path: Path) -> "PrunedGraph":
        return cls(sorted(path.glob("edges-*.arrow")))

    def __len__(self) -> int:
        """Shards."""
        return len(self.files)

    def shard(self, k: int) -> Edges:
        i, j, weight = (column.to_numpy() for column in _read_arrow(self.files[k]).columns)
        return Edges(i, j, weight)


@dataclass(frozen=True)
class Clusters:
    """What `write_clusters` or `write_kmeans_clusters` wrote."""

    files: list[Path]

    @classmethod
    def open(cls, path: Path) -> "Clusters":
        return cls(sorted(path.glob("clusters-*.parquet")))

    def shard(self, k: int) -> Int32[np.ndarray, " sentences"]:
        return pq.read_table(self.files[k], columns=["cluster"])["cluster"].to_numpy()

    @cached_property
    def labels(self) -> Int32[np.ndarray, " sentences"]:
        """The label of every sentence of the corpus: 4 bytes a sentence."""
        return np.concatenate([self.shard(k) for k in range(len(self.files))])


@dataclass(frozen=True)
class Pairs:
    """What `write_pairs` wrote: about a byte a pair on disk, 16 in memory once `i` is read."""

    files: list[Path]

    @classmethod
    def open(cls, path: Path) -> "Pairs":
        return cls(sorted(path.glob("pairs-*.parquet")))

    def __len__(self) -> int:
        return self._count

    def chunks(self) -> Iterator[Chunk]:
        """All pairs in order, a bounded number at a time."""
        for file in self.files:
            with pq.ParquetFile(file) as pairs:
                for batch in pairs.iter_batches():
                    yield batch.column("i").to_numpy(), batch.column("j").to_numpy()

    def take(self, rows: Int64[np.ndarray, " rows"]) -> Chunk:
        """These pairs, `rows` ascending, without holding the others."""
        i, j, begin = [], [], 0
        for chunk_i, chunk_j in self.chunks():
            low, high = np.searchsorted(rows, [begin, begin + len(chunk_i)])
            i.append(chunk_i[rows[low:high] - begin])
            j.append(chunk_j[rows[low:high] - begin])
            begin += len(chunk_i)
        return np.concatenate(i), np.concatenate(j)

    @property
    def i(self) -> Int64[np.ndarray, " pairs"]:
        """The earlier sentence of every pair."""
        return self._columns[0]

    @property
    def j(self) -> Int64[np.ndarray, " pairs"]:
        """The later sentence of every pair."""
        return self._columns[1]

    @cached_property
    def _count(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self.files)

    @cached_property
    def _columns(self) -> Int64[np.ndarray, "two pairs"]:
        both, begin = np.empty((2, len(self)), np.int64), 0
        for i, j in self.chunks():
            both[:, begin : begin + len(i)] = i, j
            begin += len(i)
        return both


def _require_pairs(total: ClusterStatistics) -> None:
    documents = total.document_sizes.total()
    needed = max(2, math.ceil(MIN_GIVING_SHARE * documents))
    if total.giving_documents < needed:
        longest = max(total.document_sizes, default=0)
        raise EmptyPairsError(
            f"At least {needed} of the {documents} documents that are not held out must give a "
            f"pair, {total.giving_documents} do; the longest has {longest} sentence(s). "
            "Clustering needs two sentences a document: check the sentence splitter."
        )


def _report(total: ClusterStatistics, held_out: int, max_partners: int | None) -> Json:
    pairs = pairs_of(total.cluster_sizes, max_partners)
    if total.kept_share > WARN_ABOVE:
        log.warning(
            "%.0f %% of all intra-document pairs share a cluster (more than %.0f %%): the clusters "
            "say little. Lower top_k or set mutual = true.",
            100 * total.kept_share,
            100 * WARN_ABOVE,
        )
    return {
        "documents": total.document_sizes.total(),
        "held_out_documents": held_out,
        "giving_documents": total.giving_documents,
        "single_cluster_documents": total.single_cluster_documents,
        "clusters": total.clusters,
        "clusters_per_document": total.mean_clusters,
        "cluster_sizes": {str(size): n for size, n in sorted(total.cluster_sizes.items())},
        "possible_pairs": total.possible_pairs,
        "clustered_pairs": total.clustered_pairs,
        "pairs": pairs,
        "kept_share": total.kept_share,
        "dropped_share": 1 - pairs / total.clustered_pairs,
    }


def _sampled_overlap(corpus: Corpus, pairs: Pairs, seed: int) -> float:
    """Lexical overlap of OVERLAP_SAMPLE pairs, or of all if there are fewer."""
    count = min(OVERLAP_SAMPLE, len(pairs))
    rows = np.sort(np.random.default_rng(seed).choice(len(pairs), count, replace=False))
    i, j = pairs.take(rows)
    return lexical_overlap(corpus.texts(i), corpus.texts(j))


def _write_arrow(path: Path, columns: list[Any], schema: Any) -> None:
    with ipc.new_file(path, schema) as file:
        file.write_batch(pa.record_batch(columns, schema=schema))


def _read_arrow(path: Path) -> Any:
    """The one record batch of a file, memory-mapped."""
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).get_batch(0)


def _write_labels(labels: Int32[np.ndarray, " sentences"], shard: Shard, out: Path) -> None:
    sentences = np.arange(shard.sentences.start, shard.sentences.stop)
    with _delta_writer(out / f"clusters-{shard.index:05d}.parquet", schemas.CLUSTERS) as file:
        file.write_table(pa.table([sentences, labels], schema=schemas.CLUSTERS))


def _write_pairs(chunks: Iterator[Chunk], path: Path) -> None:
    with _delta_writer(path, schemas.PAIRS) as file:
        for i, j in chunks:
            file.write_table(pa.table([i, j], schema=schemas.PAIRS))


def _delta_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """Columns of slowly changing integers: differences in few bits, no general compression."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=False,
        column_encoding=dict.fromkeys(schema.names, "DELTA_BINARY_PACKED"),
    )
