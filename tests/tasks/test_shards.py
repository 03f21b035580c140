"""A corpus in shards gives what it gives in one, and only shards that changed run again."""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flows.annotation_variants import annotate
from flows.pipeline import documents_of
from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.pairs import Pairs, read_counts, read_report
from sentemb_core.config.run import AnnotationConfig, CorpusConfig, EncoderConfig, ValidationConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import EmptyPairsError, ShardError, StorageError
from sentemb_core.store import maintenance
from sentemb_core.store.objects import Store
from sentemb_core.store.parts import parts_of
from sentemb_core.types import ArtifactRef
from tasks import shards
from tasks.annotate import build_graph
from tasks.artifacts import Annotation, artifact_path
from tasks.corpus import draw_validation_pool, shard_size, tokenise_sentences
from tasks.encode import encode_sentences, start_encoder
from tasks.execution import dry_run, without_prefect
from tests.flows.corpora import bodies_run, probed, write_corpus

TINY = EncoderConfig(dim=8, vocabulary=300)
FULL = 60
"""Sentences of a full shard: the documents have some 260."""


@pytest.fixture
def source(tmp_path: Path, home: Path) -> Path:
    return write_corpus(tmp_path / "documents.jsonl", documents=40)


@pytest.fixture
def encoder(source: Path) -> ArtifactRef:
    """An encoder that no later document changes."""
    with without_prefect():
        return start_encoder(TINY.name, TINY, documents_of(corpus_at(source)))


def corpus_at(source: Path, full: int | None = None) -> CorpusConfig:
    return CorpusConfig(
        source=str(source), id_column="id", sentences_column="sentences", shard_sentences=full
    )


def annotated(
    source: Path, encoder: ArtifactRef, full: int | None, **idc: object
) -> tuple[ArtifactRef, ArtifactRef | None, Annotation]:
    """Tokens, vectors and annotation of a corpus; its pool holds out some documents."""
    documents = documents_of(corpus_at(source, full))
    pool = draw_validation_pool(documents, ValidationConfig(candidates=8))
    sentences = tokenise_sentences(documents, pool, encoder)
    config = AnnotationConfig.model_validate(idc)
    vectors = None
    if config.keep_embeddings:
        vectors = encode_sentences(encoder, sentences, config.dtype, config.storage)
    return sentences, vectors, annotate(encoder, sentences, config, vectors)


def named_pairs(sentences: ArtifactRef, annotation: Annotation) -> list[tuple[object, ...]]:
    """Pairs as document, position and position."""
    corpus = TokenCorpus.open(artifact_path(sentences))
    pairs = Pairs.open(artifact_path(annotation.pairs), corpus).chunks()
    both = [pair for i, j in pairs for pair in zip(i.tolist(), j.tolist(), strict=True)]
    return [(*corpus.place(i), corpus.place(j)[1]) for i, j in both]


VARIANTS = [
    {},
    {"top_k": 2, "max_partners": 2, "min_distance": 2},
    {"keep_embeddings": False},
    {"positives": "edge"},
    {"clustering": "kmeans"},
]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("idc", VARIANTS, ids=str)
def test_shards_give_what_one_shard_gives(source: Path, encoder: ArtifactRef, idc: dict):
    one, vectors, whole = annotated(source, encoder, None, **idc)
    many, joined_vectors, joined = annotated(source, encoder, FULL, **idc)
    shards = len(parts_of(artifact_path(many)))
    assert shards > 3
    by_kmeans = idc.get("clustering") == "kmeans"
    assert len(parts_of(artifact_path(joined.pairs))) == (0 if by_kmeans else shards)
    assert named_pairs(many, joined) == named_pairs(one, whole) != []
    assert read_report(artifact_path(joined.pairs)) == read_report(artifact_path(whole.pairs))
    if vectors and joined_vectors:
        rows = np.random.default_rng(0).permutation(len(TokenCorpus.open(artifact_path(one))))
        stored = (Embeddings(artifact_path(ref)) for ref in (vectors, joined_vectors))
        np.testing.assert_array_equal(*(each.rows(rows) for each in stored))
        labels = (Clusters(artifact_path(each.clusters)) for each in (whole, joined))
        np.testing.assert_array_equal(*(each.of(rows) for each in labels))


@pytest.mark.usefixtures("in_process")
def test_related_pairs_are_drawn_from_the_joined_corpus(source: Path, encoder: ArtifactRef):
    sentences, _, annotation = annotated(source, encoder, FULL, positives="related")
    documents = Counter(doc_id for doc_id, *_ in named_pairs(sentences, annotation))
    assert len(documents) == len(TokenCorpus.open(artifact_path(sentences)).doc_ids) - 8
    shards = len(parts_of(artifact_path(sentences)))
    assert len(parts_of(artifact_path(annotation.pairs))) == shards > 3


def test_a_second_machine_reads_the_shards_of_a_shared_store(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SENTEMB_STORE", f"file://{tmp_path}/shared")
    found: list[list[tuple[object, ...]]] = []
    for machine in ("a", "b"):
        monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / machine))

        def compute() -> None:
            start = start_encoder(TINY.name, TINY, documents_of(corpus_at(source)))
            sentences, _, annotation = annotated(source, start, FULL)
            found.append(named_pairs(sentences, annotation))

        ran = bodies_run(compute)
        assert bool(ran) == (machine == "a")
    assert found[0] == found[1] != []


@pytest.mark.usefixtures("in_process")
def test_a_corpus_without_pairs_is_refused_and_a_shard_without_pairs_is_not(
    source: Path, encoder: ArtifactRef
):
    with pytest.raises(EmptyPairsError):
        annotated(source, encoder, FULL, min_distance=50)
    append(source, 40)  # the new documents have two sentences each
    _, _, annotation = annotated(source, encoder, FULL, min_distance=2)
    parts = parts_of(artifact_path(annotation.pairs))
    counts = [read_counts(artifact_path(part)).pairs for part in parts]
    assert counts[-1] == 0 < sum(counts)


def append(source: Path, count: int) -> None:
    with source.open("a", encoding="utf-8") as file:
        for k in range(count):
            row = {"id": f"new-{k}", "sentences": ["a new tax on money", "a loan of the bank"]}
            file.write(json.dumps(row) + "\n")


def test_appended_documents_run_in_their_own_shards(source: Path, encoder: ArtifactRef):
    def bodies() -> Counter[str]:
        return Counter(bodies_run(annotated, source, encoder, FULL))

    first = bodies()
    count = first["encode_sentences"]
    assert bodies() == {}
    append(source, 5)
    second = bodies()
    by_shard = ("tokenise_sentences", "encode_sentences", "build_graph", "prune_graph")
    assert {second[name] for name in by_shard} <= {1, 2}
    assert count > 3
    assert second["cluster_sentences"] in (1, 2)
    assert 1 <= second["export_pairs"] < count  # and a shard whose held-out documents changed


@pytest.mark.usefixtures("in_process")
def test_the_size_of_shards_stays_as_at_the_first_reading(source: Path, monkeypatch):
    monkeypatch.setattr("sentemb_core.corpus.split.SHARD_SENTENCES", 20)
    monkeypatch.setattr("sentemb_core.corpus.split.FIRST", 16)
    monkeypatch.setattr("sentemb_core.corpus.split.MOST", 32)
    corpus = corpus_at(source)
    first = shard_size(documents_of(corpus), corpus)
    append(source, 100)
    grown = documents_of(corpus)
    assert shard_size(grown, corpus) == first
    assert shard_size(grown, corpus.model_copy(update={"source": "elsewhere"})) == 2 * first


def test_a_dry_run_shows_the_shards_that_would_run(source: Path, encoder: ArtifactRef):
    store = Store.default()
    with without_prefect():
        sentences, _, _ = annotated(source, encoder, FULL)
    count = len(parts_of(store.path(sentences)))
    corpus = artifact_path(parts_of(store.path(sentences))[2])
    lost = [
        record
        for record in (store.root / "records" / "encode_sentences").iterdir()
        if corpus.parent.name in record.read_text("utf-8")
    ]
    assert len(lost) == 1
    lost[0].unlink()
    with dry_run() as plan:
        annotated(source, encoder, FULL)
    by_stage = {status.stage: status for status in plan.statuses}
    assert by_stage["tokenise_sentences"].verdict == "HIT"
    assert by_stage["encode_sentences"].verdict == "MISS"
    assert by_stage["encode_sentences"].why.startswith(f"1 of {count} shards (3)")
    assert by_stage["build_graph"].verdict == "AFTER"
    assert "join_shards" not in by_stage


def test_a_broken_part_is_computed_again(source: Path, encoder: ArtifactRef):
    with without_prefect():
        _, vectors, _ = annotated(source, encoder, FULL)
        assert vectors
        part = parts_of(artifact_path(vectors))[1]
        file = next(artifact_path(part).iterdir())
        file.write_bytes(b"x" + file.read_bytes()[1:])
    assert Counter(bodies_run(annotated, source, encoder, FULL)) == {"encode_sentences": 1}


def test_gc_keeps_the_parts_of_a_kept_run(source: Path, encoder: ArtifactRef):
    store = Store.default()
    with probed():
        _, vectors, _ = annotated(source, encoder, FULL)
    assert vectors
    for path in store.root.rglob("*"):
        os.utime(path, (0, 0))  # the last hour's work stays
    kept = [vectors, *parts_of(store.path(vectors))]
    for runs, all_of_them in ((1, True), (0, False)):
        maintenance.collect(store, [], keep_runs=runs)
        assert {*map(store.holds, kept)} == {all_of_them}


@pytest.mark.usefixtures("in_process")
def test_the_shards_that_do_not_fail_are_kept(source: Path, encoder: ArtifactRef, monkeypatch):
    _, vectors, _ = annotated(source, encoder, FULL)
    assert vectors
    calls = shards.calls_by_shard(("embeddings",), {"embeddings": vectors})
    asked: list[int] = []

    def run(call: dict[str, ArtifactRef]) -> ArtifactRef:
        asked.append(len(asked) + 1)
        if asked[-1] in (2, 4):
            raise ValueError("a broken shard")
        return call["embeddings"]

    with pytest.raises(ShardError) as raised:
        shards.results_by_shard(build_graph.stage, calls, run)
    assert len(asked) == len(calls)
    assert "(2, 4)" in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)

    def full(call: object) -> ArtifactRef:
        raise StorageError("full")

    with pytest.raises(StorageError):
        shards.results_by_shard(build_graph.stage, calls, full)
