"""Pairs of clusters: all of them or a capped share, in chunks and shards that change nothing."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.annotation import pair_arrays
from sentemb_core.annotation.pair_arrays import cluster_pairs, edge_pairs
from sentemb_core.annotation.pruning import Edges

annotations = st.lists(
    st.lists(st.integers(0, 3), max_size=16), min_size=1, max_size=6
)  # one list of labels a document
checked = settings(deadline=None, max_examples=80)


def arrays(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    labels = np.array([label for document in documents for label in document], np.int32)
    return labels, np.cumsum([0, *map(len, documents)])


def listed(
    labels: np.ndarray, offsets: np.ndarray, chunk: int = pair_arrays.CHUNK, **options
) -> list[tuple[int, int]]:
    texts = np.arange(offsets[0], offsets[-1])  # a hash of each sentence
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_arrays, "CHUNK", chunk)
        chunks = list(cluster_pairs(labels, offsets, texts=texts, **options))
    return [(i, j) for ci, cj in chunks for i, j in zip(ci.tolist(), cj.tolist(), strict=True)]


def by_hand(labels: np.ndarray, offsets: np.ndarray) -> list[tuple[int, int]]:
    return [
        (i, j)
        for start, stop in pairwise(offsets.tolist())
        for i, j in combinations(range(start, stop), 2)
        if labels[i] == labels[j]
    ]


@checked
@given(annotations)
def test_every_pair_of_a_cluster_occurs_once_and_sorted(documents):
    assert listed(*arrays(documents)) == by_hand(*arrays(documents))


@checked
@given(annotations, st.integers(1, 7), st.integers(0, 3))
def test_the_cap_gives_every_sentence_its_partners(documents, max_partners, seed):
    labels, offsets = arrays(documents)
    pairs = listed(labels, offsets, max_partners=max_partners, seed=seed)
    assert pairs == sorted({*pairs})
    assert {*pairs} <= {*by_hand(labels, offsets)}
    partners = np.bincount(np.array(pairs, np.int64).ravel(), minlength=len(labels))
    for start, stop in pairwise(offsets.tolist()):
        for label in {*labels[start:stop].tolist()}:
            members = start + np.flatnonzero(labels[start:stop] == label)
            wanted = np.full(len(members), min(max_partners, len(members) - 1))
            if wanted[0] % 2 and len(members) % 2:
                wanted[0] -= 1  # an odd degree needs an even number of ends
            assert sorted(partners[members]) == wanted.tolist()


@checked
@given(annotations, st.one_of(st.none(), st.integers(1, 7)), st.integers(0, 6), st.integers(1, 9))
def test_shards_and_chunks_change_nothing(documents, max_partners, cut, chunk):
    labels, offsets = arrays(documents)
    cut = min(cut, len(documents))
    whole = listed(labels, offsets, max_partners=max_partners, seed=5)
    shards = [
        pair
        for part in (offsets[: cut + 1], offsets[cut:])
        for pair in listed(
            labels[part[0] : part[-1]], part, max_partners=max_partners, seed=5, chunk=chunk
        )
    ]
    assert shards == whole


@checked
@given(annotations, st.one_of(st.none(), st.integers(1, 7)))
def test_held_out_documents_give_no_pair(documents, max_partners):
    labels, offsets = arrays(documents)
    held_out = np.arange(len(documents)) % 2 == 1
    document_of = np.repeat(np.arange(len(documents)), np.diff(offsets))
    whole = listed(labels, offsets, max_partners=max_partners)
    kept = listed(labels, offsets, max_partners=max_partners, held_out=held_out)
    assert kept == [pair for pair in whole if document_of[pair[0]] % 2 == 0]


@checked
@given(annotations, st.one_of(st.none(), st.integers(1, 7)), st.integers(1, 5))
def test_a_chain_gives_no_pair_below_the_distance(documents, max_partners, min_distance):
    labels, offsets = arrays(documents)
    whole = listed(labels, offsets, max_partners=max_partners, seed=5)
    apart = listed(
        labels, offsets, max_partners=max_partners, seed=5, min_distance=min_distance, chunk=9
    )
    assert apart == [(i, j) for i, j in whole if j - i >= min_distance]


def test_edges_of_held_out_documents_are_no_pairs():
    edges = Edges(np.array([10, 10, 13]), np.array([11, 12, 14]), np.ones(3, np.float32))
    i, j = edge_pairs(edges, np.array([10, 13, 13, 15]), np.array([True, False, False]))
    assert (i.tolist(), j.tolist()) == ([13], [14])


def test_chunks_of_a_large_cluster_are_bounded(monkeypatch):
    monkeypatch.setattr(pair_arrays, "CHUNK", 10_000)
    labels, offsets = np.zeros(1_000, np.int32), np.array([0, 1_000])
    sizes = [len(i) for i, _ in cluster_pairs(labels, offsets)]
    assert sum(sizes) == 499_500
    assert max(sizes) < 10_000 + 1_000


def test_another_seed_draws_other_partners():
    labels, offsets = np.zeros(40, np.int32), np.array([0, 40])
    one, other = (listed(labels, offsets, max_partners=4, seed=seed) for seed in (1, 2))
    assert one != other
