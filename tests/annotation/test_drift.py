"""The drift of an annotation against the same documents in float32."""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.annotation.clusters import Clusters, write_labels
from sentemb_core.annotation.drift import pair_drift
from sentemb_core.annotation.graph import PrunedGraph, save_edges
from sentemb_core.annotation.pruning import Edges, clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import encode
from tests import tiny
from tests.annotation.made import token_corpus


def cached(tmp_path: Path, shard_sentences: int | None = None) -> TokenCorpus:
    """Twelve documents of six sentences."""
    words = np.random.default_rng(0).integers(4, 20, (12, 6, 5)).tolist()
    texts = [[" ".join(f"w{word}" for word in row) for row in rows] for rows in words]
    return token_corpus(tmp_path, texts, shard_sentences=shard_sentences)


def test_float32_labels_have_no_drift(tmp_path: Path):
    encoder = tiny.static()
    corpus, config = cached(tmp_path), AnnotationConfig(top_k=1)
    vectors = encode(encoder, corpus.tokens(np.arange(len(corpus))))
    near = neighbours(vectors, corpus.offsets, config.degree)
    edges = prune_to_top_k(near, config.top_k)
    own = clusters(edges, corpus.offsets)
    (shard,) = corpus.shards
    for labels, drifts in ((own, False), (np.zeros_like(own), True)):
        write_labels(labels, shard, tmp_path)
        drift = pair_drift(encoder, corpus, Clusters(tmp_path), config)
        assert drift > 0.3 if drifts else drift == 0

    alone = config.model_copy(update={"positives": "edge"})
    save_edges(edges, 0, tmp_path)
    assert pair_drift(encoder, corpus, PrunedGraph(tmp_path, corpus), alone) == 0
    half = Edges(edges.i[::2], edges.j[::2], edges.weight[::2])
    save_edges(half, 0, tmp_path)
    lost = len(edges.i) - len(half.i)
    drift = pair_drift(encoder, corpus, PrunedGraph(tmp_path, corpus), alone)
    assert drift == lost / len(edges.i), "chains of edges have more pairs in their clusters"


@pytest.mark.parametrize("looked_at", [3, 8])
def test_the_sample_may_miss_whole_shards(tmp_path, monkeypatch, looked_at: int):
    """Two documents a shard: of some shards one document is drawn, of others none."""
    monkeypatch.setattr("sentemb_core.annotation.drift.DOCUMENTS", looked_at)
    encoder = tiny.static()
    corpus, config = cached(tmp_path, shard_sentences=12), AnnotationConfig(top_k=1)
    for shard in corpus.shards:
        offsets = corpus.shard_offsets(shard.index)
        near = neighbours(encode(encoder, corpus.shard_tokens(shard.index)), offsets, config.degree)
        edges = prune_to_top_k(near, config.top_k)
        save_edges(edges, shard.index, tmp_path)
        write_labels(clusters(edges, offsets), shard, tmp_path)
    assert len(corpus.shards) == 6
    assert pair_drift(encoder, corpus, Clusters(tmp_path), config) == 0
    alone = config.model_copy(update={"positives": "edge"})
    assert pair_drift(encoder, corpus, PrunedGraph(tmp_path, corpus), alone) == 0
