"""Graph and pruned graph of a corpus on disk: one Arrow file each per shard."""

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Int64

from sentemb_core import schemas
from sentemb_core.annotation.embeddings import Embeddings, FreshVectors
from sentemb_core.annotation.pair_arrays import Chunk
from sentemb_core.annotation.pruning import Edges, prune_to_top_k
from sentemb_core.annotation.relatedness import (
    Relatedness,
    distant_pairs,
    pairs_across,
    related_pairs,
    relatedness,
)
from sentemb_core.annotation.similarity import Neighbours, neighbours
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import naming_documents
from sentemb_core.progress import progress
from sentemb_core.shards import read_arrow, write_arrow
from sentemb_core.store.parts import files_in

SAMPLE = 30_000
"""Pairs within documents, and as many across, for an estimate: the error of its share is .01."""

log = logging.getLogger(__name__)


def write_graph(
    corpus: TokenCorpus,
    vectors: Embeddings | FreshVectors,
    degree: int,
    out: Path,
    min_distance: int = 1,
) -> None:
    """Write the `degree` strongest neighbours of each sentence (`similarity.neighbours`).

    Stored and fresh vectors give equal bytes.

    Raises:
        BadEmbeddingError: A vector is not finite.
    """
    with comparisons(map(corpus.shard_offsets, range(len(corpus.shards)))) as compared:
        for shard in corpus.shards:
            offsets = corpus.shard_offsets(shard.index)
            of_shard = vectors.shard(shard.index)
            with naming_documents(corpus.place):
                near = neighbours(of_shard, offsets, degree, min_distance, compared)
            del of_shard
            _write_neighbours(near, out / f"graph-{shard.index:05d}.arrow")
            del near  # otherwise two shards are in memory while the next is compared


@contextmanager
def comparisons(
    shards: Iterable[Int64[np.ndarray, " bounds"]],
) -> Generator[Callable[[int], None], None, None]:
    """Yield a function that adds compared pairs to the progress of a graph."""
    total = sum(int((np.diff(offsets) ** 2).sum()) for offsets in shards)
    done = 0
    with progress("build_graph: pairs of sentences compared", total) as show:

        def compared(pairs: int) -> None:
            nonlocal done
            done = min(done + pairs, total)  # a block is padded
            show(done)

        yield compared


def write_edges(graph: Path, top_k: int, mutual: bool, out: Path) -> None:
    """Write the kept edges of every shard of a graph (mutual, Eq. 3: `pruning.prune_to_top_k`)."""
    for k, file in enumerate(sorted(graph.glob("graph-*.arrow"))):
        save_edges(prune_to_top_k(read_neighbours(file), top_k, mutual=mutual), k, out)


def read_neighbours(file: Path) -> Neighbours:
    """The neighbours that `write_graph` wrote to the file of one shard."""
    batch = read_arrow(file)
    degree = batch.schema.field("neighbour").type.list_size
    first = int(batch.schema.metadata[b"first_sentence"])
    index, weight = (column.flatten().to_numpy().reshape(-1, degree) for column in batch.columns)
    return Neighbours(first, index, weight)


class PrunedGraph:
    """The edges that `write_edges` or `write_related` wrote, between sentences of a corpus."""

    def __init__(self, path: Path, corpus: TokenCorpus) -> None:
        self._files = files_in(path, "edges-*.arrow")
        self._firsts = corpus.firsts(path)

    def shard(self, k: int) -> Edges:
        i, j, weight = (column.to_numpy() for column in read_arrow(self._files[k]).columns)
        return Edges(i + self._firsts[k], j + self._firsts[k], weight)


def save_edges(edges: Edges, shard: int, out: Path) -> None:
    """Write the edges of one shard."""
    columns = [pa.array(edges.i), pa.array(edges.j), pa.array(edges.weight)]
    write_arrow(out / f"edges-{shard:05d}.arrow", pa.record_batch(columns, schema=schemas.EDGES))


def _write_neighbours(near: Neighbours, path: Path) -> None:
    degree = near.index.shape[1]
    schema = schemas.graph(degree).with_metadata({"first_sentence": str(near.first)})
    columns = [
        pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), degree)
        for column in (near.index, near.weight)
    ]
    write_arrow(path, pa.record_batch(columns, schema=schema))


def write_related(
    corpus: TokenCorpus,
    vectors: Embeddings,
    edges: Path,
    model: Relatedness,
    seed: int,
    min_distance: int,
    out: Path,
) -> None:
    """Write the edges of every shard and as many related pairs, each pair once.

    The draws depend on the bounds of the shards, which the token cache determines.
    """
    stored = PrunedGraph(edges, corpus)
    edge_count = pair_count = 0
    for shard in corpus.shards:
        rng = np.random.default_rng([seed, 1, shard.index])
        kept, rows = stored.shard(shard.index), vectors.shard(shard.index)
        offsets = corpus.shard_offsets(shard.index)
        i, j = related_pairs(rows, offsets, model, len(kept.i), rng, min_distance)
        first = shard.sentences.start
        weight = np.einsum("nd,nd->n", rows[i - first], rows[j - first])
        both = _united(kept, Edges(i, j, weight))
        edge_count, pair_count = edge_count + len(kept.i), pair_count + len(both.i)
        save_edges(both, shard.index, out)
    log.info("pairs: %d nearest, and %d more that are related", edge_count, pair_count - edge_count)


def estimated_relatedness(
    corpus: TokenCorpus, vectors: Embeddings, seed: int, min_distance: int
) -> Relatedness:
    """Return what decides which pairs are related; log if the corpus has none to estimate from."""
    model = estimated(corpus, vectors, np.random.default_rng([seed, 0]), min_distance)
    if model.share is None:
        log.warning(
            "Related pairs need at least two documents of %d sentences or more, and %d draws found "
            "none, so only the edges are pairs. Take longer documents, or set "
            "annotation.positives = 'edge'.",
            min_distance + 1,
            SAMPLE,
        )
    return model


def estimated(
    corpus: TokenCorpus, vectors: Embeddings, rng: np.random.Generator, min_distance: int = 2
) -> Relatedness:
    """The probability that a pair inside a document is related, by the similarity of vectors."""
    within = distant_pairs(corpus.spans_of, len(corpus), SAMPLE, rng, min_distance)
    across = pairs_across(corpus.spans_of, len(corpus), SAMPLE, rng)
    return relatedness(_similarities(vectors, within), _similarities(vectors, across))


def _similarities(vectors: Embeddings, pairs: Chunk) -> Float32[np.ndarray, " pairs"]:
    i, j = pairs
    return np.einsum("nd,nd->n", vectors.rows(i), vectors.rows(j))


def _united(one: Edges, other: Edges) -> Edges:
    """The edges of both, each once, sorted."""
    i, j = np.append(one.i, other.i), np.append(one.j, other.j)
    rows = np.lexsort((j, i))
    i, j = i[rows], j[rows]
    fresh = (np.diff(i, prepend=-1) != 0) | (np.diff(j, prepend=-1) != 0)
    return Edges(i[fresh], j[fresh], np.append(one.weight, other.weight)[rows][fresh])
