"""The ways to pick positives that `annotation_study` compares, each a table of pairs.

A variant sees what an annotation sees: the tokenised corpus and the sentence vectors of the last
encoder. Where it draws, it draws as many pairs as the training will take.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Int64
from scipy import sparse
from torch import Tensor

from sentemb_core.annotation.related import SAMPLE, united
from sentemb_core.config.methods import CONPONO
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.idc.components import clusters
from sentemb_core.idc.pairs import Chunk, cluster_pairs
from sentemb_core.idc.pruning import Edges, prune_to_top_k
from sentemb_core.idc.relatedness import (
    Relatedness,
    distant_pairs,
    related_pairs,
    relatedness,
    strangers,
)
from sentemb_core.idc.similarity import neighbours
from sentemb_core.methods.conpono import conpono
from sentemb_core.methods.contrast import loss_of_choice
from sentemb_core.methods.method import CrossSampleTerm, Learner, Method
from sentemb_core.pairs import sources
from sentemb_core.pairs.table import PairTable
from sentemb_core.views.batch import Batch, negatives, positives

CROSS_SAMPLE = 10_000
"""Sentences among which positives of other documents are looked for."""


@dataclass(frozen=True)
class Seen:
    """What a variant sees; `count` pairs will be trained on."""

    corpus: TokenCorpus
    vectors: Float32[np.ndarray, "sentences dim"]
    count: int
    rng: np.random.Generator

    @cached_property
    def neighbours(self) -> PairTable:
        return sources.neighbours(1)(self.corpus)

    def edges(self, top_k: int = 1, *, mutual: bool = False, min_distance: int = 1) -> Edges:
        near = neighbours(self.vectors, self.corpus.offsets, 8, min_distance)
        return prune_to_top_k(near, top_k, mutual=mutual)

    def cosines(
        self, i: Int64[np.ndarray, " n"], j: Int64[np.ndarray, " n"]
    ) -> Float32[np.ndarray, " n"]:
        return np.einsum("nd,nd->n", self.vectors[i], self.vectors[j])

    def drawn(self, pairs: Callable[..., Chunk], count: int) -> Chunk:
        """So many of `distant_pairs` or `strangers`."""
        return pairs(self.corpus.spans_of, len(self.corpus), count, self.rng)

    @cached_property
    def across(self) -> Float32[np.ndarray, " n"]:
        """Similarities of sentences of different documents."""
        return self.cosines(*self.drawn(strangers, SAMPLE))

    @cached_property
    def relatedness(self) -> Relatedness:
        within = self.drawn(distant_pairs, SAMPLE)
        return relatedness(self.cosines(*within), self.across)

    def some(self, table: PairTable, count: int) -> PairTable:
        """`count` of the pairs, all equally often but for a rest."""
        whole, rest = divmod(count, len(table))
        rows = np.tile(np.arange(len(table)), whole)
        rows = np.append(rows, self.rng.choice(len(table), rest, replace=False))
        return PairTable(table.i[rows], table.j[rows])

    def mixed(self, one: PairTable, other: PairTable, share: float) -> PairTable:
        """Both, `share` of the first; all of it where the other has none to give."""
        if not len(other):
            return self.some(one, self.count)
        first = int(share * self.count)
        parts = self.some(one, first), self.some(other, self.count - first)
        return PairTable(*(np.concatenate([getattr(p, side) for p in parts]) for side in "ij"))


Variant = Callable[[Seen], PairTable]


def of_edges(edges: Edges) -> PairTable:
    return PairTable(edges.i, edges.j)


def of_clusters(seen: Seen, edges: Edges, max_partners: int | None = None) -> PairTable:
    """All pairs inside connected components (mutual, Eq. 4)."""
    labels = clusters(edges, seen.corpus.offsets)
    made = cluster_pairs(labels, seen.corpus.offsets, max_partners=max_partners)
    return PairTable(*(np.concatenate(side) for side in zip(*made, strict=True)))


def cluster(seen: Seen) -> PairTable:
    return of_clusters(seen, seen.edges())


def edge(seen: Seen) -> PairTable:
    return of_edges(seen.edges())


def apart_edge(seen: Seen) -> PairTable:
    return of_edges(seen.edges(min_distance=2))


def in_one_cluster(seen: Seen) -> PairTable:
    """Neighbours that share a cluster."""
    document = seen.corpus.document_of.astype(np.int64)
    labels = clusters(seen.edges(), seen.corpus.offsets) + document * (1 << 32)
    return chosen(seen.neighbours, labels[seen.neighbours.i] == labels[seen.neighbours.j])


def same_document(seen: Seen) -> PairTable:
    """Any two sentences of a document that are no neighbours."""
    return PairTable(*seen.drawn(distant_pairs, seen.count))


def weighted(seen: Seen) -> PairTable:
    """Cluster pairs as often as their squared cosine says."""
    table = cluster(seen)
    weight = np.maximum(seen.cosines(table.i, table.j), 1e-6).astype(np.float64) ** 2
    rows = seen.rng.choice(len(table), seen.count, p=weight / weight.sum())
    return PairTable(table.i[rows], table.j[rows])


def above_floor(seen: Seen) -> PairTable:
    """Clusters of edges stronger than 99 % of the similarities across documents."""
    edges = seen.edges()
    kept = edges.weight > np.quantile(seen.across, 0.99)
    return of_clusters(seen, Edges(edges.i[kept], edges.j[kept], edges.weight[kept]))


def related(seen: Seen) -> PairTable:
    """Any two sentences of a document that are related with a probability of .8 or more."""
    return PairTable(
        *related_pairs(seen.vectors, seen.corpus.offsets, seen.relatedness, seen.count, seen.rng)
    )


def each_once(seen: Seen) -> PairTable:
    """Apart edges and as many draws of related pairs, each pair once, as `--preset auto`."""
    edges = seen.edges(min_distance=2)
    told = seen.relatedness
    i, j = related_pairs(seen.vectors, seen.corpus.offsets, told, len(edges.i), seen.rng)
    return of_edges(united(edges, Edges(i, j, seen.cosines(i, j))))


def in_order(seen: Seen) -> PairTable:
    """Neighbours by the share that order explains of their words, apart edges for the rest."""
    return seen.mixed(seen.neighbours, apart_edge(seen), order_share(seen))


def by_topics(seen: Seen) -> PairTable:
    """Neighbours by the share of related pairs: few where documents mix topics; clusters else."""
    return seen.mixed(seen.neighbours, cluster(seen), seen.relatedness.share or 0.0)


def with_other_documents(seen: Seen) -> PairTable:
    """A quarter are sentences of two documents that rank each other first of a sample."""
    sample = min(CROSS_SAMPLE, len(seen.vectors))
    rows = seen.rng.choice(len(seen.vectors), sample, replace=False)
    best, weight = np.empty(sample, np.int64), np.empty(sample)
    for block in np.array_split(np.arange(sample), max(1, sample // 1_000)):
        cosines = seen.vectors[rows[block]] @ seen.vectors[rows].T
        document = seen.corpus.document_of[rows]
        cosines[document[block, None] == document] = -1
        cosines[cosines > 0.99] = -1  # the same sentence teaches nothing
        best[block], weight[block] = cosines.argmax(axis=1), cosines.max(axis=1)
    mutual = (best[best] == np.arange(sample)) & (np.arange(sample) < best)
    kept = np.flatnonzero(mutual & (weight > np.quantile(seen.across, 0.999)))
    return seen.mixed(PairTable(rows[kept], rows[best[kept]]), cluster(seen), 0.25)


def chosen(table: PairTable, kept: Bool[np.ndarray, " pairs"]) -> PairTable:
    return PairTable(table.i[kept], table.j[kept])


def order_share(seen: Seen) -> float:
    """How much less alike than neighbours distant sentences are, 1: as little as strangers.

    By the words alone (cosine of inverse document frequencies): an encoder that learnt from
    neighbours remembers them.
    """
    lengths = seen.corpus.lengths
    ids = np.concatenate(seen.corpus.tokens(np.arange(len(lengths))))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    words = sparse.csr_array((np.ones(len(ids)), (rows, ids)))
    words.data[:] = 1
    words = words * np.log(len(lengths) / np.maximum(words.sum(axis=0), 1))[None]
    words = sparse.csr_array(words)
    norms = np.sqrt(words.power(2).sum(axis=1))

    def alike(i: Int64[np.ndarray, " n"], j: Int64[np.ndarray, " n"]) -> float:
        products = (words[i] * words[j]).sum(axis=1)
        return float((products / np.maximum(norms[i] * norms[j], 1e-9)).mean())

    near = alike(seen.neighbours.i, seen.neighbours.j)
    far, unrelated = (alike(*seen.drawn(pairs, SAMPLE)) for pairs in (distant_pairs, strangers))
    return float(np.clip((near - far) / max(near - unrelated, 1e-9), 0, 1))


PAPER = "cluster pairs, K=1 (the paper)"
AUTO = "half edges apart, half related pairs (auto)"
VARIANTS: Mapping[str, Variant] = {
    "neighbours only": lambda seen: seen.neighbours,
    PAPER: cluster,
    "edges": edge,
    "edges apart": apart_edge,
    "clusters of edges apart": lambda seen: of_clusters(seen, seen.edges(min_distance=2)),
    "related pairs": related,
    AUTO: lambda seen: seen.mixed(apart_edge(seen), related(seen), 0.5),
    "edges apart, neighbours by order": in_order,
    "neighbours by related share, rest cluster pairs": by_topics,
    "half neighbours, half cluster pairs": lambda seen: seen.mixed(
        seen.neighbours, cluster(seen), 0.5
    ),
    "quarter neighbours, rest cluster pairs": lambda seen: seen.mixed(
        seen.neighbours, cluster(seen), 0.25
    ),
    "half neighbours, half edges": lambda seen: seen.mixed(seen.neighbours, edge(seen), 0.5),
    "neighbours of one cluster": in_one_cluster,
    "any two of a document": same_document,
    "cluster pairs by squared cosine": weighted,
    "floor learnt from other documents": above_floor,
    "mutual edges, K=1": lambda seen: of_edges(seen.edges(mutual=True)),
    "clusters of mutual edges, K=3": lambda seen: of_clusters(seen, seen.edges(3, mutual=True)),
    "cluster pairs, 2 partners at most": lambda seen: of_clusters(seen, seen.edges(), 2),
    "positives of other documents": with_other_documents,
    "cluster pairs, temperature .02": cluster,
    "cluster pairs, temperature .1": cluster,
    "cluster pairs, false negatives masked": cluster,
    "cluster pairs, annotated every 100 steps": cluster,
    "edges apart, annotated every 100 steps": apart_edge,
}

ASKED: Mapping[str, Variant] = {
    "edges apart and related pairs, each once (the preset's auto)": each_once,
}
"""Not among "all rows", whose tables were made before."""

SCHEDULES: Mapping[str, tuple[str, ...]] = {
    "neighbours, then cluster pairs": ("neighbours only", PAPER),
    "half neighbours, then cluster pairs": ("half neighbours, half cluster pairs", PAPER),
    "edges apart, then cluster pairs": ("edges apart", PAPER),
    "auto, then cluster pairs": (AUTO, PAPER),
    "cluster pairs, then auto": (PAPER, AUTO),
}
"""Variants that change with the round."""


def method_of(variant: str, encoder: Encoder, seen: Seen) -> Method:
    """Its loss: CONPONO's, but for two temperatures and the masked negatives."""
    temperature = {".02": 0.02, ".1": 0.1}.get(variant.rpartition("temperature ")[2], 0.05)
    method = conpono(CONPONO(temperature=temperature), encoder)
    if not variant.endswith("masked"):
        return method
    return replace(method, terms={"contrast": (1.0, unlike(encoder, seen))})


def unlike(encoder: Encoder, seen: Seen) -> CrossSampleTerm:
    """Negatives that the annotator finds more alike than the positive are masked."""
    everyone = seen.corpus.tokens(np.arange(len(seen.vectors)))
    row_of = {tokens.tobytes(): row for row, tokens in enumerate(everyone)}

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, Mapping[str, float]]:
        views = [batch.views[name] for name in ("anchor", "positive")]
        known = [seen.vectors[[row_of[t.tobytes()] for t in view.tokens]] for view in views]
        positive = positives(*views)
        cosines = known[0] @ known[1].T
        own = np.where(positive, cosines, -1).max(axis=1, keepdims=True)
        negative = negatives(*views, positive, within_document=False) & (cosines <= own)
        return loss_of_choice(
            vectors["anchor"], vectors["positive"], positive, negative, 0.05, encoder.similarity
        )

    return term
