"""Samplers: pure in the step, every pair once an epoch, documents apart, held-out ones absent."""

import itertools
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import TrainingConfig
from sentemb_core.errors import EmptyPairsError, NoNegativesError, RecipeError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts import pairs as sources
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.methods.parts.views import negatives, positives
from sentemb_core.training.batches import ClusterBatches, PairBatches, sampler_for
from tests import tiny

CONPONO = method_for(TrainingConfig(method="conpono").method, tiny.static())
SIMCSE = method_for(TrainingConfig(method="simcse").method, tiny.bert())
BY_CLUSTER = {"name": "infocse_idc", "batches": "cluster"}
CLUSTERS = method_for(TrainingConfig(method=BY_CLUSTER).method, tiny.static())


def unique_corpus(counts, held_out=()):
    """Return a corpus whose sentence k is the word k, so a batch shows its sentences."""
    corpus = tiny.corpus(counts, held_out=held_out)
    corpus.sentences = [np.array([k]) for k in range(len(corpus))]
    return corpus


def pair_batches(corpus, batch_size, seed=0, window=1) -> PairBatches:
    return PairBatches(CONPONO, corpus, sources.neighbours(window)(corpus), batch_size, seed)


def drawn(batch, view):
    return [int(tokens[0]) for tokens in batch.views[view].tokens]


def pairs_of(batch):
    return [
        tuple(sorted(pair))
        for pair in zip(drawn(batch, "anchor"), drawn(batch, "positive"), strict=True)
    ]


def same(one, other):
    return all(
        np.array_equal(a.document, b.document)
        and np.array_equal(a.group, b.group)
        and all(map(np.array_equal, a.tokens, b.tokens))
        for a, b in zip(one.views.values(), other.views.values(), strict=True)
    )


@pytest.fixture(params=["pair", "cluster"])
def make(request):
    """A sampler of either kind over twelve documents."""
    corpus = unique_corpus([6] * 12)
    labels = np.tile(np.array([0, 1, 0, 1, 0, 2]), 12)

    def sampler(seed=0):
        if request.param == "pair":
            return pair_batches(corpus, 8, seed, window=2)
        return ClusterBatches(CLUSTERS, corpus, labels, 12, 3, seed)

    return sampler


def test_a_batch_depends_on_seed_and_step_alone(make):
    steps = [0, 5, 1, 30, 5, 0, 2]
    visited = make()
    for step in steps:
        assert same(visited.batch(step), make().batch(step))
    assert not same(make(0).batch(3), make(1).batch(3))
    assert not same(make().batch(0), make().batch(1))


@pytest.mark.parametrize(
    ("titles", "steps", "of_three"),
    [
        (1_000_000, 15_625, 46_875),
        (100_000, 1_562, 4_686),
        (50_000, 781, 2_343),
        (20_000, 312, 936),
        (10_000, 156, 468),
    ],
)
def test_golden_numbers_of_batches_per_epoch(titles, steps, of_three):
    """The sizes of product_thesis and SimCSE; the last short batch is dropped."""
    alone = tiny.TinyCorpus([], np.arange(titles + 1), np.zeros(titles, dtype=bool))
    sampler = PairBatches(SIMCSE, alone, SIMCSE.pairs(alone, None), 64, 0)
    assert sampler.batches_per_epoch == steps
    assert divmod(of_three, sampler.batches_per_epoch) == (3, 0)


@given(st.lists(st.integers(1, 7), min_size=4, max_size=12), st.integers(2, 6), st.integers(0, 99))
def test_every_pair_comes_once_an_epoch_but_for_the_last_few(counts, size, seed):
    corpus = unique_corpus([*counts, 3, 3])
    sampler = pair_batches(corpus, size, seed)
    every = sources.neighbours(1)(corpus)
    for epoch in range(2):
        steps = range(epoch * sampler.batches_per_epoch, (epoch + 1) * sampler.batches_per_epoch)
        seen = list(itertools.chain.from_iterable(pairs_of(sampler.batch(step)) for step in steps))
        assert len(seen) == len(set(seen))
        assert set(seen) <= set(zip(every.i.tolist(), every.j.tolist(), strict=True))
        assert 0 <= len(every) - len(seen) < sampler.batch_size


def test_epochs_combine_documents_differently(make):
    sampler = make()
    size = sampler.batches_per_epoch
    met = [
        {*view.document.tolist()}
        for step in range(2 * size)
        for view in [next(iter(sampler.batch(step).views.values()))]
    ]
    assert met[:size] != met[size:]


def test_a_document_of_one_sentence_is_in_no_batch():
    corpus = unique_corpus([3, 1] * 6)
    labels = np.zeros(len(corpus), np.int64)
    alone = set(np.flatnonzero(np.diff(corpus.offsets) == 1).tolist())
    for sampler in (pair_batches(corpus, 4), ClusterBatches(CLUSTERS, corpus, labels, 6, 3, 0)):
        views = [view for step in range(9) for view in sampler.batch(step).views.values()]
        assert not alone & {document for view in views for document in view.document.tolist()}


def test_a_batch_prefers_distinct_documents():
    """Compared to a plain shuffle; a document of half of all pairs is spread over all batches."""
    corpus = unique_corpus([9] * 40)
    sampler = pair_batches(corpus, 32)
    ours = [
        len(set(sampler.batch(step).views["anchor"].document.tolist()))
        for step in range(sampler.batches_per_epoch)
    ]
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(40), 8)
    plain = [len(set(rng.permutation(documents)[:32].tolist())) for _ in range(50)]
    assert np.mean(ours) > np.mean(plain) + 3
    sampler = pair_batches(unique_corpus([41, *[2] * 40]), 8)
    for step in range(sampler.batches_per_epoch):
        of_one = sampler.batch(step).views["anchor"].document == 0
        assert 1 <= of_one.sum() <= 7


def test_a_batch_prefers_labels_of_distinct_documents():
    """Eight documents of three labels each: in batches of eight all differ."""
    corpus = replace(unique_corpus([2] * 24), originals=np.repeat(np.arange(0, 24, 3), 3))
    method = method_for(TrainingConfig(method="fine_tune").method, tiny.static())
    sampler = PairBatches(method, corpus, sources.labelled_documents(corpus), 8, 0)
    for step in range(sampler.batches_per_epoch):
        documents = sampler.batch(step).views["counterpart"].document
        assert sorted(documents.tolist()) == list(range(0, 24, 3))


def test_left_out_and_same_document_pairs_are_logged(caplog):
    """Eight documents of five pairs: in batches of eight all differ."""
    with caplog.at_level(logging.INFO, logger="sentemb_core"):
        pair_batches(unique_corpus([6] * 8), 8)
        pair_batches(unique_corpus([6] * 8), 6)
    first, second = caplog.messages
    numbers = [re.findall(r"\d[\d.]*\b", message) for message in (first, second)]
    assert numbers[0][:4] == ["5", "8", "0", "0.0"]
    assert numbers[1][:3] == ["6", "6", "4"]


def test_pairs_come_in_either_orientation():
    sampler = pair_batches(unique_corpus([9] * 20), 32)
    batches = [sampler.batch(step) for step in range(sampler.batches_per_epoch)]
    forward = [
        a < b
        for x in batches
        for a, b in zip(drawn(x, "anchor"), drawn(x, "positive"), strict=True)
    ]
    assert 0.35 < np.mean(forward) < 0.65


def test_a_pair_may_be_reversed_in_a_later_epoch():
    sampler = pair_batches(unique_corpus([2] * 8), 8)
    passes = [
        list(zip(drawn(batch, "anchor"), drawn(batch, "positive"), strict=True))
        for batch in map(sampler.batch, range(20))
    ]
    assert len({*itertools.chain(*passes)}) == 16
    assert len({tuple(a < b for a, b in one) for one in passes}) > 1, "at the same places, too"


def test_held_out_documents_are_in_no_batch():
    corpus = unique_corpus([4] * 6, held_out=(0, 3))
    labels = np.zeros(len(corpus), dtype=np.int64)
    for sampler in (pair_batches(corpus, 4), ClusterBatches(CLUSTERS, corpus, labels, 8, 4, 0)):
        documents = {
            d
            for step in range(12)
            for view in sampler.batch(step).views.values()
            for d in view.document.tolist()
        }
        assert documents == {1, 2, 4, 5}


@st.composite
def clustered(draw):
    counts = draw(st.lists(st.integers(1, 9), min_size=2, max_size=9))
    labels = draw(st.lists(st.integers(0, 2), min_size=sum(counts), max_size=sum(counts)))
    return [*counts, 2, 2], [*labels, 0, 0, 1, 1]


@given(clustered(), st.integers(4, 20), st.integers(2, 5), st.integers(0, 99))
def test_cluster_batches_keep_budget_and_cluster_sizes(drawn_clusters, budget, most, seed):
    counts, labels = drawn_clusters
    corpus = unique_corpus(counts)
    sampler = ClusterBatches(CLUSTERS, corpus, np.array(labels), budget, most, seed)
    for step in range(2 * sampler.batches_per_epoch):
        batch = sampler.batch(step)
        view = batch.views["sentence"]
        sentences = drawn(batch, "sentence")
        assert len(sentences) == len(set(sentences))
        assert len(view) <= budget + budget // 2
        assert len(set(view.document.tolist())) >= 2
        groups = {}
        for sentence, group in zip(sentences, view.group.tolist(), strict=True):
            cluster = (corpus.document_of[sentence], labels[sentence])
            groups.setdefault(group, set()).add(cluster)
        assert all(len(clusters) == 1 for clusters in groups.values())
        sizes = np.unique(view.group, return_counts=True)[1]
        assert sizes.min() >= 2
        assert sizes.max() <= most
        positive = positives(view, view)
        assert batch.pairs == positive.sum() / 2
        assert negatives(view, view, positive).any(axis=1).all()


def test_an_epoch_of_cluster_batches_visits_documents_once():
    corpus = unique_corpus([4] * 30)
    sampler = ClusterBatches(CLUSTERS, corpus, np.zeros(120, dtype=np.int64), 16, 4, 0)
    visited = [
        d
        for step in range(sampler.batches_per_epoch)
        for d in sorted(set(sampler.batch(step).views["sentence"].document.tolist()))
    ]
    assert len(visited) == len(set(visited)) == 28  # the last two documents fill no batch


@pytest.mark.parametrize(
    "labels", [[0] * 8, [0, 0, 1, 1, 2, 2, 3, 3]], ids=["large cluster", "long document"]
)
def test_every_sentence_of_a_cluster_is_in_some_batch(labels):
    sampler = ClusterBatches(CLUSTERS, unique_corpus([8] * 6), np.tile(labels, 6), 8, 3, 0)
    batches = [drawn(sampler.batch(step), "sentence") for step in range(60)]
    assert {*itertools.chain(*batches)} == {*range(48)}


def test_pairs_of_one_document_are_e301():
    with pytest.raises(NoNegativesError, match=r"\b1 of 1\b"):
        pair_batches(unique_corpus([9]), 4)
    with pytest.raises(NoNegativesError, match=r"\b1 of 2\b"):
        pair_batches(unique_corpus([9, 1]), 4)
    with pytest.raises(NoNegativesError, match=r"\b1 of 1\b"):
        ClusterBatches(CLUSTERS, unique_corpus([9]), np.zeros(9, dtype=np.int64), 8, 4, 0)


def test_a_cluster_batch_of_three_sentences_is_e301():
    with pytest.raises(NoNegativesError, match=r"batch_size 3\b.*\b4\b"):
        ClusterBatches(CLUSTERS, unique_corpus([4, 4]), np.zeros(8, dtype=np.int64), 3, 4, 0)


def test_too_few_documents_with_pairs_are_e102():
    with pytest.raises(EmptyPairsError, match=r"\b0 of 5\b.*\b1 sentence\b"):
        pair_batches(unique_corpus([1] * 5), 4)
    with pytest.raises(EmptyPairsError, match=r"\b2 of 202\b"):
        pair_batches(unique_corpus([1] * 200 + [2, 2]), 2)
    with pytest.raises(EmptyPairsError, match=r"\b0 of 0\b"):
        pair_batches(unique_corpus([3, 3], held_out=(0, 1)), 2)
    assert pair_batches(unique_corpus([2, 2] + [1] * 200, range(60, 202)), 2), "2 of 60 are enough"


def test_a_batch_larger_than_the_data_shrinks(caplog):
    with caplog.at_level(logging.WARNING):
        sampler = pair_batches(unique_corpus([3, 3]), 100)
    assert [record.args[:2] for record in caplog.records] == [(100, 4)]
    assert sorted(pairs_of(sampler.batch(7))) == [(0, 1), (1, 2), (3, 4), (4, 5)]
    small = ClusterBatches(CLUSTERS, unique_corpus([3, 3]), np.zeros(6, dtype=np.int64), 50, 4, 0)
    assert sorted(drawn(small.batch(0), "sentence")) == list(range(6))


def test_cluster_batches_need_an_annotation():
    config = TrainingConfig(method=BY_CLUSTER)
    with pytest.raises(RecipeError, match="infocse_idc"):
        sampler_for(config, CLUSTERS, unique_corpus([4, 4]))


def test_the_configuration_chooses_the_sampler():
    corpus = unique_corpus([4] * 4)
    annotation = Annotation(np.array([0, 4]), np.array([1, 5]), np.zeros(16, dtype=np.int32))
    config = TrainingConfig(batch_size=8)
    method = method_for(config.method, tiny.static())
    assert isinstance(sampler_for(config, method, corpus, annotation), PairBatches)
    config = TrainingConfig(batch_size=8, method=BY_CLUSTER)
    assert isinstance(sampler_for(config, CLUSTERS, corpus, annotation), ClusterBatches)
