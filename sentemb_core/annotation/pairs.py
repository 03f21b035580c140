"""Pairs of a corpus on disk, and the report on them; equal input gives equal bytes."""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from sentemb_core.store.parts import files_in
from sentemb_core.types import Json

PAIR_FILES = "pairs-*.parquet"
COUNTS = "counts.json"
"""File with the counts of the pairs beside it."""

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
    held_out: Sequence[int] | None = None,
) -> None:
    """Write the pairs of clusters (`pair_arrays.cluster_pairs`) and the report on them.

    With `edges` (of `graph.write_edges`) the pairs are only the edges: a cluster also pairs the two
    ends of a chain. `held_out` are the documents of a shard that give no pair, and a shard has no
    report. None: those of the corpus.

    Raises:
        EmptyPairsError: Fewer than 2 % of the documents of a corpus, or fewer than two, give a
            pair.
    """
    total = ClusterStatistics()
    clusters, graph = Clusters(labels), PrunedGraph(edges, corpus) if edges else None
    silent = corpus.held_out
    if held_out is not None:
        silent = np.isin(np.arange(len(silent)), held_out)
    for shard in corpus.shards:
        offsets, own = corpus.shard_offsets(shard.index), clusters.shard(shard.index)
        held = silent[shard.documents]
        if graph is None:
            sentences = np.arange(shard.sentences.start, shard.sentences.stop)
            chunks = cluster_pairs(
                own,
                offsets,
                held_out=held,
                max_partners=max_partners,
                min_distance=min_distance,
                seed=seed,
                texts=corpus.text_hashes_of(sentences) if max_partners else None,
            )
        else:
            chunks = [edge_pairs(graph.shard(shard.index), offsets, held)]
        total += cluster_statistics(own, offsets, held)
        with delta_writer(out / f"pairs-{shard.index:05d}.parquet", schemas.PAIRS) as file:
            for i, j in chunks:
                file.write_table(pa.table([i, j], schema=schemas.PAIRS))
                adjacent = int((j - i == 1).sum())
                total += ClusterStatistics(pairs=len(i), adjacent_pairs=adjacent)
    (out / COUNTS).write_text(total.model_dump_json(indent=1), encoding="utf-8")
    if held_out is None:
        write_report(corpus, [out], max_partners, seed, out, edges is not None, min_distance)


def write_report(
    corpus: TokenCorpus,
    parts: Sequence[Path],
    max_partners: int | None,
    seed: int,
    out: Path,
    of_edges: bool,
    min_distance: int,
) -> None:
    """Write report.json on the pairs in the folders `parts` to `out`.

    `kept_share` is the share of all intra-document pairs that share a cluster, or that are edges.
    `dropped_share` is the part of these that `max_partners` and `min_distance` removed. A kept
    share above KEPT_SHARE_WARNING is logged. `adjacent_share` far above chance says that the
    annotator repeats the adjacent pairs that it was trained on.
    """
    total = sum(map(read_counts, parts), ClusterStatistics())
    _require_pairs(total)
    kept = total.pairs if of_edges else total.clustered_pairs
    files = [file for part in parts for file in sorted(part.glob(PAIR_FILES))]
    report: Json = {
        "documents": total.document_sizes.total(),
        "held_out_documents": total.held_out_documents,
        "giving_documents": total.giving_documents,
        "single_cluster_documents": total.clusters_per_document[1],
        "clusters": total.cluster_sizes.total(),
        "clusters_per_document": total.mean_clusters,
        "cluster_sizes": {str(size): n for size, n in sorted(total.cluster_sizes.items())},
        "possible_pairs": total.possible_pairs,
        "clustered_pairs": total.clustered_pairs,
        "pairs": total.pairs,
        "kept_share": kept / total.possible_pairs,
        "dropped_share": 1 - total.pairs / kept,
        "adjacent_share": total.adjacent_pairs / max(total.pairs, 1),
        "lexical_overlap": _sampled_overlap(corpus, Pairs(files, corpus.firsts(out)), seed),
    }
    if not of_edges and report["kept_share"] > KEPT_SHARE_WARNING:
        log.warning(
            "%.0f %% of all intra-document pairs share a cluster (more than %.0f %%), so clusters "
            "are whole documents. Lower top_k, or set mutual = true.",
            *(100 * report["kept_share"], 100 * KEPT_SHARE_WARNING),
        )
    if not of_edges and (max_partners is not None or min_distance > 1):
        log.info(
            "pairs dropped: %.1f %% of the pairs that share a cluster "
            "(max_partners %s, min_distance %d)",
            *(100 * report["dropped_share"], max_partners, min_distance),
        )
    (out / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def read_counts(folder: Path) -> ClusterStatistics:
    """The counts that `write_pairs` wrote."""
    return ClusterStatistics.model_validate_json((folder / COUNTS).read_bytes())


def read_report(folder: Path) -> Json:
    """The report that `write_report` wrote."""
    return json.loads((folder / "report.json").read_text("utf-8"))


class Pairs:
    """The pairs of a corpus that `write_pairs` wrote, or a join of them.

    A pair takes about a byte on disk, and 16 in memory.
    """

    def __init__(self, files: Sequence[Path], firsts: Sequence[int]) -> None:
        """`firsts` are the sentences of the corpus from which each file counts."""
        self._files, self._firsts = files, firsts

    @classmethod
    def open(cls, path: Path, corpus: TokenCorpus) -> "Pairs":
        """Return the pairs of an artifact."""
        return cls(files_in(path, PAIR_FILES), corpus.firsts(path))

    def __len__(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self._files)

    def chunks(self) -> Iterator[Chunk]:
        """All pairs in order, a bounded number at a time."""
        for file, first in zip(self._files, self._firsts, strict=True):
            with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as pairs:
                for batch in pairs.iter_batches(use_threads=False):
                    yield batch["i"].to_numpy() + first, batch["j"].to_numpy() + first

    def take(self, rows: Int64[np.ndarray, " rows"]) -> Chunk:
        """The pairs of these ascending rows; the other pairs are not kept in memory."""
        (i, j), begin = np.empty((2, len(rows)), np.int64), 0
        for chunk_i, chunk_j in self.chunks():
            low, high = np.searchsorted(rows, [begin, begin + len(chunk_i)])
            i[low:high] = chunk_i[rows[low:high] - begin]
            j[low:high] = chunk_j[rows[low:high] - begin]
            begin += len(chunk_i)
        return i, j

    def shard(self, k: int) -> Chunk:
        """The pairs of one shard of the corpus."""
        both = pq.read_table(self._files[k], use_threads=False)
        return both["i"].to_numpy() + self._firsts[k], both["j"].to_numpy() + self._firsts[k]


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
    count = len(pairs)
    sample = min(OVERLAP_SAMPLE, count)
    rows = np.sort(np.random.default_rng(seed).choice(count, sample, replace=False))
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
