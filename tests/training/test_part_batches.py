"""Batches of a corpus of many shards come from one part at a time and cover all parts."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.annotation.clusters import Clusters, write_labels
from sentemb_core.annotation.pairs import Pairs, StoredAnnotation, write_pairs
from sentemb_core.config.run import TrainingConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import EmptyPairsError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.views import Batch
from sentemb_core.training import batches as batches_module
from sentemb_core.training.batches import (
    PairBatches,
    PartBatches,
    corpus_sampler,
    sampler_for,
    some,
)
from tests import tiny
from tests.annotation.made import token_corpus

DOCUMENTS, SENTENCES, SHARDS = 24, 3, 12
"""Two documents a shard."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> TokenCorpus:
    """Every sentence two words of its own."""
    texts = [
        [f"w{4 + number} w{5 + number}" for number in range(first, first + SENTENCES)]
        for first in range(0, DOCUMENTS * SENTENCES, SENTENCES)
    ]
    folder: Path = tmp_path_factory.mktemp("corpus")
    opened = token_corpus(folder, texts, shard_sentences=2 * SENTENCES)
    assert len(opened.shards) == SHARDS
    return opened


@pytest.fixture(autouse=True)
def five_at_once(monkeypatch):
    monkeypatch.setattr(batches_module, "AT_ONCE", 5)


def method_and_config(seed: int = 0, **changes) -> tuple[Method, TrainingConfig]:
    settings = {"method": "conpono", "batch_size": 4, "seed": seed} | changes
    config = TrainingConfig.model_validate(settings)
    return method_for(config.method, tiny.static()), config


def sampler(corpus: TokenCorpus, seed: int = 0) -> PartBatches:
    method, config = method_and_config(seed)
    found = corpus_sampler(config, method, corpus)
    assert isinstance(found, PartBatches)
    return found


def whole_sampler(corpus: TokenCorpus, seed: int) -> PairBatches:
    method, config = method_and_config(seed)
    return sampler_for(config, method, corpus)


def pairs_of(batch: Batch) -> list[tuple[int, int]]:
    """The sentences of each pair, by their first words."""
    ends = [[int(text[0]) - 4 for text in batch.views[view].tokens] for view in batch.views]
    return [(min(pair), max(pair)) for pair in zip(*ends, strict=True)]


def test_an_epoch_has_every_pair_of_the_corpus_once(corpus: TokenCorpus):
    batches = sampler(corpus)
    drawn = [pair for step in range(12) for pair in pairs_of(batches.batch(step))]
    assert sorted(drawn) == [
        (first, first + 1) for first in range(DOCUMENTS * SENTENCES) if first % SENTENCES != 2
    ]
    assert batches._number == 2  # sixteen pairs in each of three parts
    again = [pair for step in range(12, 24) for pair in pairs_of(batches.batch(step))]
    assert sorted(again) == sorted(drawn)
    first, second = ([{*pairs[k : k + 16]} for k in (0, 16, 32)] for pairs in (drawn, again))
    assert first != second


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 3))
@settings(max_examples=20)
def test_a_batch_depends_on_seed_and_step_alone(corpus: TokenCorpus, steps: list[int], seed: int):
    wandering = sampler(corpus, seed)
    for step in steps:
        assert pairs_of(wandering.batch(step)) == pairs_of(sampler(corpus, seed).batch(step))


def test_seeds_give_different_parts(corpus: TokenCorpus):
    first = [pairs_of(sampler(corpus, seed).batch(0)) for seed in range(4)]
    assert len({tuple(pairs) for pairs in first}) == 4


def test_a_corpus_of_few_shards_is_one_part(corpus: TokenCorpus):
    method, config = method_and_config(3)
    few = corpus.part(range(5))
    found, known = corpus_sampler(config, method, few), sampler_for(config, method, few)
    assert isinstance(found, PairBatches)
    assert [pairs_of(found.batch(k)) for k in range(9)] == [
        pairs_of(known.batch(k)) for k in range(9)
    ]


def test_an_annotation_is_read_part_by_part(corpus: TokenCorpus, tmp_path: Path):
    """The first and the last sentence of every document are a cluster."""
    for name in ("clusters", "pairs"):
        (tmp_path / name).mkdir()
    for shard in corpus.shards:
        write_labels(np.array([0, 1, 0] * 2, np.int32), shard, tmp_path / "clusters")
    write_pairs(corpus, tmp_path / "clusters", None, 0, tmp_path / "pairs")
    clusters, pairs = Clusters(tmp_path / "clusters"), Pairs.open(tmp_path / "pairs", corpus)
    found = StoredAnnotation(corpus, clusters, pairs)
    for batches, size in (("pair", 4), ("cluster", 8)):
        settings = {"name": "infocse_idc", "batches": batches}
        method, config = method_and_config(method=settings, batch_size=size)
        made = corpus_sampler(config, method, corpus, found)
        assert isinstance(made, PartBatches)
        drawn = [made.batch(step) for step in range(6)]
        if batches == "pair":
            wanted = [(3 * k, 3 * k + 2) for k in range(DOCUMENTS)]
            assert sorted(pair for batch in drawn for pair in pairs_of(batch)) == wanted
        else:
            views = [batch.views["sentence"] for batch in drawn]
            texts = [int(text[0]) - 4 for view in views for text in view.tokens]
            assert sorted(texts) == sorted([*range(0, 72, 3), *range(2, 72, 3)])


def test_parts_without_pairs_are_skipped(corpus: TokenCorpus, caplog):
    def of(shards, seed):
        if giving & {*shards}:
            return whole_sampler(corpus.part(shards), seed)
        raise EmptyPairsError("nothing")

    giving = {7}
    with caplog.at_level(logging.WARNING):
        for seed in range(6):
            batches = PartBatches(of, SHARDS, seed)
            epochs = [
                [pairs_of(batches.batch(4 * k + step)) for step in range(4)] for k in range(6)
            ]
            for epoch in epochs:
                assert (42, 43) in [pair for pairs in epoch for pair in pairs], "of shard 7"
    assert any("E102 nothing" in line for line in caplog.messages)
    giving = set()
    with pytest.raises(EmptyPairsError):
        PartBatches(of, SHARDS, 0)


def test_some_shards_of_a_large_corpus_follow_the_seed(corpus: TokenCorpus):
    parts = [some(corpus, seed) for seed in range(3)]
    assert [len(part.shards) for part in parts] == [5, 5, 5]
    assert len({tuple(part.texts(np.arange(len(part)))) for part in parts}) == 3
    few = corpus.part([2, 9])
    assert some(few, 0).texts(np.arange(12)) == few.texts(np.arange(12))


def test_every_part_draws_its_batches_by_a_seed_of_its_own(corpus: TokenCorpus):
    seeds: list[int] = []

    def of(shards, seed):
        seeds.append(seed)
        return whole_sampler(corpus.part(shards), seed)

    PartBatches(of, SHARDS, 0).batch(23)
    assert len({*seeds}) == len(seeds) == 6, "three parts an epoch"
