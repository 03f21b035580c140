"""How much bfloat16 changes an annotation: some documents are annotated again in float32."""

import numpy as np
from jaxtyping import Int64

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.graph import PrunedGraph
from sentemb_core.annotation.pruning import clusters, pruned_edges
from sentemb_core.annotation.statistics import pair_disagreement
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder

DOCUMENTS = 64
"""Size of the sample: some seconds of a pretrained encoder."""


def pair_drift(
    annotator: Encoder,
    corpus: TokenCorpus,
    annotation: Clusters | PrunedGraph,
    config: AnnotationConfig,
) -> float:
    """Share of the pairs of a sample that only one of the two precisions finds, in [0, 1].

    Vectors of the annotator in `config.dtype` gave the annotation: clusters by partition (mutual,
    Eq. 3), or edges. Related pairs are drawn at random, so they are not compared. The seed of the
    settings draws the sample.
    """
    count = min(DOCUMENTS, corpus.n_documents)
    drawn = np.random.default_rng(config.seed).choice(corpus.n_documents, count, replace=False)
    first, last = corpus.spans(np.sort(drawn))
    rows = np.concatenate([np.arange(*span) for span in zip(first, last, strict=True)])
    offsets = np.cumsum(np.append(0, last - first))
    exact = pruned_edges(encode(annotator, corpus.tokens(rows)), offsets, config)
    if isinstance(annotation, Clusters):
        return pair_disagreement(annotation.of(rows), clusters(exact, offsets), offsets)
    one = _edges_between(rows, corpus, annotation)
    other = _ends(rows[exact.i], rows[exact.j])
    return len(one ^ other) / max(len(one | other), 1)


def _edges_between(
    sentences: Int64[np.ndarray, " n"], corpus: TokenCorpus, graph: PrunedGraph
) -> set[tuple[int, int]]:
    """The edges between these sentences, which are those of whole documents."""
    kept: set[tuple[int, int]] = set()
    for shard in corpus.shards:
        low, high = np.searchsorted(sentences, [shard.sentences.start, shard.sentences.stop])
        if low < high:
            edges = graph.shard(shard.index)
            own = np.isin(edges.i, sentences[low:high])
            kept |= _ends(edges.i[own], edges.j[own])
    return kept


def _ends(i: Int64[np.ndarray, " edges"], j: Int64[np.ndarray, " edges"]) -> set[tuple[int, int]]:
    return {*zip(i.tolist(), j.tolist(), strict=True)}
