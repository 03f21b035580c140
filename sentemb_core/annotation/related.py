"""Edges of a corpus on disk together with random pairs that are probably related."""

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32

from sentemb_core import schemas
from sentemb_core.annotation.corpus import Corpus
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.graph import PrunedGraph
from sentemb_core.idc.pairs import Chunk
from sentemb_core.idc.pruning import Edges
from sentemb_core.idc.relatedness import (
    Relatedness,
    distant_pairs,
    related_pairs,
    relatedness,
    strangers,
)
from sentemb_core.shards import write_arrow

log = logging.getLogger(__name__)

SAMPLE = 30_000
"""Pairs within documents, and as many across, behind an estimate: its share errs by .01."""


def write_related(
    corpus: Corpus,
    vectors: Embeddings,
    edges: Path,
    seed: int,
    out: Path,
    min_distance: int = 2,
) -> None:
    """The edges of every shard, and of as many `related_pairs` those that are none, each once.

    What is drawn depends on where shards begin, which the token cache settles.
    """
    stored = PrunedGraph.open(edges)
    told = estimated(corpus, vectors, np.random.default_rng([seed, 0]), min_distance)
    if told.share is None:
        log.warning(
            "Related pairs are told by documents of %d sentences or more beside others, and %d "
            "draws met none: the edges alone are the pairs. Take longer documents, or "
            "annotation.positives = 'edge'.",
            min_distance + 1,
            SAMPLE,
        )
    edge_count = pair_count = 0
    for shard in corpus.shards:
        rng = np.random.default_rng([seed, 1, shard.index])
        kept, rows = stored.shard(shard.index), vectors.shard(shard.index)
        offsets = corpus.shard_offsets(shard.index)
        i, j = related_pairs(rows, offsets, told, len(kept.i), rng, min_distance)
        first = shard.sentences.start
        weight = np.einsum("nd,nd->n", rows[i - first], rows[j - first])
        both = united(kept, Edges(i, j, weight))
        edge_count, pair_count = edge_count + len(kept.i), pair_count + len(both.i)
        columns = [pa.array(both.i), pa.array(both.j), pa.array(both.weight)]
        write_arrow(
            out / f"edges-{shard.index:05d}.arrow", pa.record_batch(columns, schema=schemas.EDGES)
        )
    log.info(
        "%d nearest pairs, and %d related ones beside them", edge_count, pair_count - edge_count
    )


def estimated(
    corpus: Corpus, vectors: Embeddings, rng: np.random.Generator, min_distance: int = 2
) -> Relatedness:
    """How probably a pair inside a document is related, by the similarity of these vectors."""
    within = distant_pairs(corpus.spans_of, len(corpus), SAMPLE, rng, min_distance)
    across = strangers(corpus.spans_of, len(corpus), SAMPLE, rng)
    return relatedness(_similarities(vectors, within), _similarities(vectors, across))


def united(one: Edges, other: Edges) -> Edges:
    """Each pair of either once, sorted."""
    i, j = np.append(one.i, other.i), np.append(one.j, other.j)
    rows = np.lexsort((j, i))
    i, j = i[rows], j[rows]
    fresh = (np.diff(i, prepend=-1) != 0) | (np.diff(j, prepend=-1) != 0)
    return Edges(i[fresh], j[fresh], np.append(one.weight, other.weight)[rows][fresh])


def _similarities(vectors: Embeddings, pairs: Chunk) -> Float32[np.ndarray, " pairs"]:
    i, j = pairs
    return np.einsum("nd,nd->n", vectors.rows(i), vectors.rows(j))
