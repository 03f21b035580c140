"""Pairs of a corpus on disk, and the report on them; equal input gives equal bytes."""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from sentemb_core import schemas
from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.embeddings import delta_writer
from sentemb_core.annotation.graph import PrunedGraph
from sentemb_core.annotation.pair_arrays import Chunk, cluster_pairs, edge_pairs
from sentemb_core.annotation.statistics import (
    KEPT_SHARE_WARNING,
    ClusterStatistics,
    cluster_statistics,
    lexical_overlap,
)
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import EmptyPairsError
from sentemb_core.formats import counted
from sentemb_core.methods.parts.pairs import LEAST_SHARE, Annotation
from sentemb_core.types import Json

OVERLAP_SAMPLE = 1_000
"""Size of the sample for the lexical overlap."""

log = logging.getLogger(__name__)


def write_pairs(
    corpus: TokenCorpus,
    labels: Path,
    max_partners: int | None,
    seed: int,
    out: Path,
    edges: Path | None = None,
    min_distance: int = 1,
) -> Json:
    """Write the pairs of all documents that are not held out, and return the report.

    The pairs are those of clusters (`pair_arrays.cluster_pairs`). With `edges` (of
    `graph.write_edges`) they are only the edges: a cluster also pairs the two ends of a chain.

    The report is also in `out`/report.json. `kept_share` is the share of all intra-document pairs
    that share a cluster, or that are edges. `dropped_share` is the part of these that
    `max_partners` and `min_distance` removed. A kept share above KEPT_SHARE_WARNING is logged.

    Raises:
        EmptyPairsError: Fewer than 2 % of the documents, or fewer than two, give a pair.
    """
    total, all_held_out = ClusterStatistics(), 0
    clusters, graph = Clusters(labels), PrunedGraph(edges, corpus) if edges else None
    for shard in corpus.shards:
        offsets, held_out = corpus.shard_offsets(shard.index), corpus.shard_held_out(shard.index)
        own = clusters.shard(shard.index)
        all_held_out += int(held_out.sum())
        total += cluster_statistics(own, offsets, held_out)
        if graph is None:
            chunks = cluster_pairs(
                own,
                offsets,
                held_out=held_out,
                max_partners=max_partners,
                min_distance=min_distance,
                seed=seed,
            )
        else:
            chunks = [edge_pairs(graph.shard(shard.index), offsets, held_out)]
        with delta_writer(out / f"pairs-{shard.index:05d}.parquet", schemas.PAIRS) as file:
            for i, j in chunks:
                file.write_table(pa.table([i, j], schema=schemas.PAIRS))
    _require_pairs(total)
    written = Pairs(out)
    kept = total.clustered_pairs if graph is None else len(written)
    report: Json = {
        "documents": total.document_sizes.total(),
        "held_out_documents": all_held_out,
        "giving_documents": total.giving_documents,
        "single_cluster_documents": total.clusters_per_document[1],
        "clusters": total.cluster_sizes.total(),
        "clusters_per_document": total.mean_clusters,
        "cluster_sizes": {str(size): n for size, n in sorted(total.cluster_sizes.items())},
        "possible_pairs": total.possible_pairs,
        "clustered_pairs": total.clustered_pairs,
        "pairs": len(written),
        "kept_share": kept / total.possible_pairs,
        "dropped_share": 1 - len(written) / kept,
        "adjacent_share": written.adjacent_share,
        "lexical_overlap": _sampled_overlap(corpus, written, seed),
    }
    if graph is None and report["kept_share"] > KEPT_SHARE_WARNING:
        log.warning(
            "%.0f %% of all intra-document pairs share a cluster (more than %.0f %%), so clusters "
            "are whole documents. Lower top_k, or set mutual = true.",
            *(100 * report["kept_share"], 100 * KEPT_SHARE_WARNING),
        )
    if graph is None and (max_partners is not None or min_distance > 1):
        log.info(
            "pairs dropped: %.1f %% of the pairs that share a cluster "
            "(max_partners %s, min_distance %d)",
            *(100 * report["dropped_share"], max_partners, min_distance),
        )
    (out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def read_report(folder: Path) -> Json:
    """The report that `write_pairs` wrote."""
    return json.loads((folder / "report.json").read_text("utf-8"))


class Pairs:
    """The pairs that `write_pairs` wrote: about a byte a pair on disk, 16 in memory."""

    def __init__(self, path: Path) -> None:
        self._files = sorted(path.glob("pairs-*.parquet"))

    def __len__(self) -> int:
        return self._count

    def chunks(self) -> Iterator[Chunk]:
        """All pairs in order, a bounded number at a time."""
        for file in self._files:
            with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as pairs:
                for batch in pairs.iter_batches(use_threads=False):
                    yield batch.column("i").to_numpy(), batch.column("j").to_numpy()

    def take(self, rows: Int64[np.ndarray, " rows"]) -> Chunk:
        """The pairs of these ascending rows; the other pairs are not kept in memory."""
        (i, j), begin = np.empty((2, len(rows)), np.int64), 0
        for chunk_i, chunk_j in self.chunks():
            low, high = np.searchsorted(rows, [begin, begin + len(chunk_i)])
            i[low:high] = chunk_i[rows[low:high] - begin]
            j[low:high] = chunk_j[rows[low:high] - begin]
            begin += len(chunk_i)
        return i, j

    @property
    def adjacent_share(self) -> float:
        """Share of pairs that are adjacent in their document.

        Far above chance, the annotator repeats the adjacent pairs that it was trained on.
        """
        adjacent = sum(int((j - i == 1).sum()) for i, j in self.chunks())
        return adjacent / max(len(self), 1)

    def shard(self, k: int) -> Chunk:
        """The pairs of one shard of the corpus."""
        both = pq.read_table(self._files[k], use_threads=False)
        return both["i"].to_numpy(), both["j"].to_numpy()

    @cached_property
    def _count(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self._files)


def _require_pairs(total: ClusterStatistics) -> None:
    documents = total.document_sizes.total()
    needed = max(2, math.ceil(LEAST_SHARE * documents))
    if total.giving_documents < needed:
        longest = max(total.document_sizes, default=0)
        raise EmptyPairsError(
            f"At least {needed} of the {documents} documents that are not held out must give a "
            f"pair: {total.giving_documents} do, and the longest document has "
            f"{counted(longest, 'sentence')}. Clustering needs min_distance + 1 sentences a "
            "document. Check the sentence splitter, or lower annotation.min_distance."
        )


def turnover(corpus: TokenCorpus, now: Pairs, before: Pairs) -> tuple[float, float]:
    """Return the share of new pairs and the share of gone pairs of two annotations, in [0, 1].

    New pairs are a share of the pairs now; gone pairs are a share of the pairs before.
    """
    common = 0
    for shard in corpus.shards:
        one, other = (
            i * len(corpus) + j for i, j in (now.shard(shard.index), before.shard(shard.index))
        )
        common += len(np.intersect1d(one, other, assume_unique=True))
    return 1 - common / len(now), 1 - common / len(before)


def _sampled_overlap(corpus: TokenCorpus, pairs: Pairs, seed: int) -> float:
    """Lexical overlap of OVERLAP_SAMPLE pairs, or of all pairs if there are fewer."""
    count = min(OVERLAP_SAMPLE, len(pairs))
    rows = np.sort(np.random.default_rng(seed).choice(len(pairs), count, replace=False))
    i, j = pairs.take(rows)
    return lexical_overlap(corpus.texts(i), corpus.texts(j))


@dataclass(frozen=True)
class StoredAnnotation:
    """Clusters and pairs on disk; only those of requested shards are in memory."""

    corpus: TokenCorpus
    clusters: Clusters
    pairs: Pairs

    def part(self, shards: Sequence[int]) -> Annotation:
        """The annotation of these shards, whose sentences count from 0 as in `TokenCorpus.part`."""
        begin, i, j = 0, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for k in shards:
            own, (first, second) = self.corpus.shards[k].sentences, self.pairs.shard(k)
            i.append(first - own.start + begin)
            j.append(second - own.start + begin)
            begin += own.stop - own.start
        labels = [self.clusters.shard(k) for k in shards]
        assert sum(map(len, labels)) == begin, "every tokenizer cuts a corpus into the same shards"
        return Annotation(np.concatenate(i), np.concatenate(j), np.concatenate(labels))
