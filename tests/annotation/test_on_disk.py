"""The annotation on disk equals the arrays, for any shards, and its report counts pairs."""

import json
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from sentemb_core import schemas
from sentemb_core.annotation import kmeans
from sentemb_core.annotation.clusters import (
    Clusters,
    churn,
    write_clusters,
)
from sentemb_core.annotation.embeddings import (
    Embeddings,
    FreshVectors,
    write_embeddings,
)
from sentemb_core.annotation.graph import (
    PrunedGraph,
    estimated,
    estimated_relatedness,
    read_neighbours,
    write_edges,
    write_graph,
    write_related,
)
from sentemb_core.annotation.kmeans_files import write_kmeans_clusters
from sentemb_core.annotation.pair_arrays import cluster_pairs
from sentemb_core.annotation.pairs import Pairs, read_report, turnover, write_pairs
from sentemb_core.annotation.pruning import clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.annotation.statistics import adjusted_rand
from sentemb_core.errors import BadEmbeddingError, EmptyPairsError
from sentemb_core.shards import save_vectors
from tests import tiny
from tests.annotation.made import LENGTHS, Corpus, Drawn, all_of, annotated, folders, listed


def test_the_files_equal_the_array_functions(tmp_path: Path):
    corpus = Corpus()
    report = annotated(corpus, tmp_path)
    vectors = Drawn(corpus).vectors
    edges = prune_to_top_k(neighbours(vectors, corpus.offsets, 4), 1)
    labels = clusters(edges, corpus.offsets)
    ((i, j),) = cluster_pairs(labels, corpus.offsets)
    stored, pairs = Clusters(tmp_path / "clusters"), Pairs.open(tmp_path / "pairs", corpus)
    np.testing.assert_array_equal(stored.of(np.arange(len(corpus))), labels)
    np.testing.assert_array_equal(all_of(pairs), [i, j])
    assert report["pairs"] == len(pairs) == len(i)

    read = read_neighbours(tmp_path / "graph" / "graph-00001.arrow")
    offsets = corpus.offsets[3:6]
    expected = neighbours(vectors[offsets[0] : offsets[-1]], offsets, 4)
    assert read.first == offsets[0]
    np.testing.assert_array_equal(read.index, expected.index)
    np.testing.assert_array_equal(read.weight, expected.weight)
    kept = PrunedGraph(tmp_path / "edges", corpus).shard(1)
    np.testing.assert_array_equal(kept.weight, prune_to_top_k(expected, 1).weight)


def test_equal_input_gives_equal_bytes_with_their_schemas(tmp_path: Path):
    for name in ("one", "other"):
        annotated(Corpus(), tmp_path / name)
    one = tmp_path / "one"
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert len(files) == 3 * 4 + 2
    for file in files:
        assert (one / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
    for name, schema in (("graph", schemas.graph(4)), ("edges", schemas.EDGES)):
        with pa.memory_map(str(one / name / f"{name}-00000.arrow")) as file:
            assert ipc.open_file(file).schema.equals(schema)
    for name, schema in (("clusters", schemas.CLUSTERS), ("pairs", schemas.PAIRS)):
        assert pq.read_schema(one / name / f"{name}-00002.parquet").equals(schema)
    sentences = pq.read_table(one / "clusters" / "clusters-00001.parquet")["sentence"]
    assert sentences.to_pylist() == [*range(10, 16)]


def test_edges_are_pairs_without_held_out_documents(tmp_path: Path):
    corpus = Corpus(held=(2,))
    annotated(corpus, tmp_path)
    (pairs,) = folders(tmp_path, "edge_pairs")
    write_pairs(corpus, tmp_path / "clusters", None, 0, pairs, edges=tmp_path / "edges")
    report = read_report(pairs)
    edges = prune_to_top_k(neighbours(Drawn(corpus).vectors, corpus.offsets, 4), 1)
    held = (edges.i >= corpus.offsets[2]) & (edges.i < corpus.offsets[3])
    i, j = all_of(Pairs.open(pairs, corpus))
    assert i.tolist() == edges.i[~held].tolist()
    assert j.tolist() == edges.j[~held].tolist()
    assert report["pairs"] == len(Pairs.open(pairs, corpus))
    assert report["adjacent_share"] == pytest.approx((j - i == 1).mean())
    assert report["kept_share"] == len(i) / report["possible_pairs"]
    assert report["dropped_share"] == 0


def test_clusters_of_whole_documents_are_warned_about_but_not_edges(tmp_path: Path, caplog):
    """Chains join whole documents at a top_k of 2, but only their edges are pairs."""
    annotated(Corpus(), tmp_path / "1", top_k=1)
    assert not caplog.records
    for top_k in (2, 4):
        annotated(Corpus(), tmp_path / str(top_k), top_k=top_k)
        [record] = caplog.records
        assert (record.levelname, record.args[1]) == ("WARNING", 60)
        caplog.clear()
    (pairs,) = folders(tmp_path, "edge_pairs")
    labels, edges = tmp_path / "2" / "clusters", tmp_path / "2" / "edges"
    write_pairs(Corpus(), labels, None, 0, pairs, edges=edges)
    assert not caplog.records


def of_two_topics(documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Topic and vector of the sentences of documents of twelve."""
    rng = np.random.default_rng(0)
    topics = 2 * np.repeat(np.arange(documents), 12) + rng.integers(2, size=12 * documents)
    directions = rng.standard_normal((2 * documents, 8))
    return topics, directions[topics] + 0.4 * rng.standard_normal((len(topics), 8))


def write_vectors(corpus: Corpus, vectors: np.ndarray, out: Path) -> None:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for shard in corpus.shards:
        rows = unit[shard.sentences].astype(np.float16)
        save_vectors(out / f"embeddings-{shard.index:05d}.arrow", rows)


def edges_and_related(
    corpus: Corpus, vectors: np.ndarray, root: Path, min_distance: int = 2
) -> tuple[Path, Path]:
    """Folders of the kept edges alone, and with related pairs beside them."""
    stored, graph, edges, both = folders(root, "vectors", "graph", "edges", "both")
    write_vectors(corpus, vectors, stored)
    write_graph(corpus, Embeddings(stored), 4, graph, min_distance)
    write_edges(graph, 1, False, edges)
    model = estimated_relatedness(corpus, Embeddings(stored), 7, min_distance)
    write_related(corpus, Embeddings(stored), edges, model, 7, min_distance, both)
    return edges, both


def test_related_pairs_join_the_edges_of_their_documents(tmp_path: Path):
    corpus = Corpus([12] * 60, cuts=(20, 45))
    topics, vectors = of_two_topics(60)
    edges, both = edges_and_related(corpus, vectors, tmp_path)
    for k, shard in enumerate(corpus.shards):
        found, alone = (listed(PrunedGraph(path, corpus).shard(k)) for path in (both, edges))
        assert found == sorted({*found})
        assert {*alone} < {*found}
        assert len(found) <= 2 * len(alone)
        assert all(i + 2 <= j and i // 12 == j // 12 for i, j in found)
        assert all(shard.sentences.start <= i and j < shard.sentences.stop for i, j in found)
        drawn = {*found} - {*alone}
        assert np.mean([topics[i] == topics[j] for i, j in drawn]) > 0.8  # by chance .5


@pytest.mark.parametrize("min_distance", [1, 4])
def test_partners_keep_the_distance(tmp_path: Path, min_distance: int):
    """Neither related pairs nor those of a cluster; with a distance of 1 everyone is one."""
    corpus = Corpus([12] * 40, cuts=(20,))
    edges, both = edges_and_related(corpus, of_two_topics(40)[1], tmp_path, min_distance)
    labels, pairs = folders(tmp_path, "clusters", "pairs")
    write_clusters(corpus, edges, labels)
    write_pairs(corpus, labels, None, 0, pairs, min_distance=min_distance)
    report = read_report(pairs)
    i, j = all_of(Pairs.open(pairs, corpus))
    related = [pair for k in range(2) for pair in listed(PrunedGraph(both, corpus).shard(k))]
    assert (j - i).min() == min(j - i for i, j in related) == min_distance
    assert report["dropped_share"] == 1 - len(i) / report["clustered_pairs"]
    assert (report["dropped_share"] > 0) == (min_distance > 1)


def test_relatedness_is_estimated_from_possible_partners(tmp_path: Path):
    """In documents of two topics, one behind the other, most that are near are of one."""
    corpus = Corpus([12] * 40, cuts=(20,))
    topics = np.repeat(np.arange(80), 6)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((80, 8))[topics] + 0.1 * rng.standard_normal((480, 8))
    write_vectors(corpus, vectors, tmp_path)
    shares = [
        estimated(corpus, Embeddings(tmp_path), np.random.default_rng(0), distance).share
        for distance in (1, 2, 6)
    ]
    assert shares == [pytest.approx(share, abs=0.06) for share in (60 / 132, 40 / 110, 0)]


def test_equal_shards_draw_related_pairs_of_their_own(tmp_path: Path):
    corpus = Corpus([12] * 40, cuts=(20,))
    vectors = np.tile(of_two_topics(20)[1], (2, 1))
    edges, both = edges_and_related(corpus, vectors, tmp_path)
    alone, found = (
        [
            {(i % 240, j % 240) for i, j in listed(PrunedGraph(path, corpus).shard(k))}
            for k in (0, 1)
        ]
        for path in (edges, both)
    )
    assert alone[0] == alone[1]
    assert found[0] != found[1]


@pytest.mark.parametrize("lengths", [[2] * 6, [12]])
def test_without_a_distant_pair_only_edges_are_pairs(tmp_path: Path, caplog, lengths: list[int]):
    corpus = Corpus(lengths, cuts=())
    edges, both = edges_and_related(corpus, Drawn(corpus).vectors, tmp_path)
    found, alone = (listed(PrunedGraph(path, corpus).shard(0)) for path in (both, edges))
    assert found == alone
    assert bool(alone) == (len(lengths) == 1)
    [record] = [each for each in caplog.records if each.levelname == "WARNING"]
    assert (record.levelname, record.args[0]) == ("WARNING", 3)


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("cap", [None, 2])
def test_other_shards_give_the_same_clusters_and_pairs(tmp_path: Path, cuts, cap):
    corpora = {"one": Corpus(), "other": Corpus(cuts=cuts)}
    one, other = (
        annotated(each, tmp_path / name, cap=cap, top_k=2) for name, each in corpora.items()
    )
    assert one == other
    found = [all_of(Pairs.open(tmp_path / name / "pairs", each)) for name, each in corpora.items()]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (3, 5)])
def test_two_annotations_are_compared_by_shard(tmp_path: Path, cuts):
    corpus = Corpus(cuts=cuts)
    for top_k in (1, 2):
        annotated(corpus, tmp_path / str(top_k), top_k=top_k)
    now, before = (Pairs.open(tmp_path / str(top_k) / "pairs", corpus) for top_k in (2, 1))
    found, last = ({*map(tuple, all_of(pairs).T.tolist())} for pairs in (now, before))
    new, gone = len(found - last) / len(found), len(last - found) / len(last)
    assert new > 0
    assert turnover(corpus, now, before) == pytest.approx((new, gone))
    assert turnover(corpus, before, now) == pytest.approx((gone, new))
    assert turnover(corpus, now, now) == (0, 0)
    one, other = (Clusters(tmp_path / str(top_k) / "clusters") for top_k in (1, 2))
    labels = (stored.of(np.arange(len(corpus))) for stored in (one, other))
    above, room = adjusted_rand(*labels, corpus.offsets)
    assert 0 < churn(corpus, one, other) < 1
    assert churn(corpus, one, other) == pytest.approx(above.sum() / room.sum())


@pytest.mark.parametrize("storage", ["float16", "float32"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_graph_of_fresh_vectors_has_equal_bytes(tmp_path, storage, similarity):
    corpus, encoder = Corpus(), tiny.static(similarity=similarity)
    vectors, stored, fused = folders(tmp_path, "vectors", "stored", "fused")
    write_embeddings(encoder, corpus, vectors, storage, "float32")
    write_graph(corpus, Embeddings(vectors), 4, stored)
    write_graph(corpus, FreshVectors(encoder, corpus, storage, "float32"), 4, fused)
    for file in stored.iterdir():
        assert file.read_bytes() == (fused / file.name).read_bytes()


def test_fresh_vectors_are_rounded_to_half_precision():
    half, full = (
        FreshVectors(tiny.static(), Corpus(), storage, "float32").shard(0)
        for storage in ("float16", "float32")
    )
    assert half.dtype == np.float32
    assert not np.array_equal(half, full)
    np.testing.assert_array_equal(half, full.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("sample", [10**6, 12])
def test_kmeans_clusters_do_not_depend_on_the_shards(tmp_path, monkeypatch, sample: int):
    monkeypatch.setattr(kmeans, "MAX_TRAINING_SENTENCES", sample)
    found = []
    for name, cuts in (("one", (3, 5)), ("other", (2,)), ("third", ())):
        corpus = Corpus(cuts=cuts)
        (out,) = folders(tmp_path, name)
        write_kmeans_clusters(corpus, Drawn(corpus), 4, "cosine", 7, out)
        found.append(Clusters(out).of(np.arange(len(corpus))).tolist())
    assert found[0] == found[1] == found[2]
    assert max(found[0]) > 0


def test_the_report_counts_what_was_kept_and_what_the_cap_dropped(tmp_path: Path, caplog):
    with caplog.at_level(logging.INFO):
        annotated(Corpus(), tmp_path / "all", top_k=4)
        assert not [record for record in caplog.records if record.levelname == "INFO"]
        report = annotated(Corpus(held=(5,)), tmp_path / "capped", top_k=4, cap=1)
    possible = sum(n * (n - 1) // 2 for n in LENGTHS if n != 9)
    assert report["possible_pairs"] == possible
    assert (report["documents"], report["held_out_documents"]) == (6, 1)
    pairs = Pairs.open(tmp_path / "capped" / "pairs", Corpus())
    assert report["pairs"] == len(pairs)
    documents = np.searchsorted(Corpus().offsets, all_of(pairs)[0], side="right") - 1
    assert 5 not in documents
    assert report["dropped_share"] == 1 - report["pairs"] / report["clustered_pairs"] > 0
    assert report["kept_share"] == report["clustered_pairs"] / possible
    assert 0 < report["lexical_overlap"] <= 1
    assert report == json.loads((tmp_path / "capped" / "pairs" / "report.json").read_text("utf-8"))
    (values,) = (record.args for record in caplog.records if record.levelname == "INFO")
    assert values == (100 * report["dropped_share"], 1, 1)


def test_a_corpus_of_single_sentences_is_refused(tmp_path: Path):
    values = r"E102 .*\b2 of the 3\b.*\b0\b.* annotation\.min_distance"
    with pytest.raises(EmptyPairsError, match=values):
        annotated(Corpus([1, 1, 1], cuts=()), tmp_path)


def test_a_broken_vector_has_its_sentence_and_document(tmp_path: Path):
    stored = Drawn(Corpus())
    stored.vectors[17, 0] = np.nan
    with pytest.raises(BadEmbeddingError, match=r"\b17,.* 2 .*'d5'"):
        write_graph(stored.corpus, stored, 4, tmp_path)


def test_pairs_can_be_taken_by_row(tmp_path: Path):
    annotated(Corpus(), tmp_path, top_k=3)
    pairs = Pairs.open(tmp_path / "pairs", Corpus())
    rows = np.array([0, 1, 5, len(pairs) - 1])
    np.testing.assert_array_equal(pairs.take(rows), all_of(pairs)[:, rows])
