"""Neighbours inside documents: ranking, ties, blocks, bad vectors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.annotation import longest, similarity
from sentemb_core.annotation.similarity import neighbours, top_neighbours
from sentemb_core.errors import BadEmbeddingError, LongDocumentError


def drawn(lengths: list[int], dim: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    vectors = rng.standard_normal((offsets[-1], dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), offsets


def sorted_row(row: np.ndarray, degree: int) -> list[int]:
    order = sorted(range(len(row)), key=lambda j: (-row[j], j))
    return [j for j in order if row[j] > -np.inf][:degree]


def expected_neighbours(
    vectors: np.ndarray, offsets: np.ndarray, degree: int, min_distance: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """`neighbours` by sorting every row of every document."""
    index = np.full((len(vectors), degree), -1)
    weight = np.zeros((len(vectors), degree), np.float32)
    for start, stop in pairwise(offsets):
        own, places = vectors[start:stop], np.arange(stop - start)
        weights = own @ own.T
        weights[np.abs(places[:, None] - places) < min_distance] = -np.inf
        weights[:, ~own.any(axis=1)] = weights[~own.any(axis=1)] = -np.inf
        for row, values in enumerate(weights):
            best = sorted_row(values, degree)
            index[start + row, : len(best)] = [start + j for j in best]
            weight[start + row, : len(best)] = values[best]
    return index, weight


@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 9))
def test_equal_weights_rank_by_the_lower_index(seed: int, columns: int, degree: int):
    rng = np.random.default_rng(seed)
    weights = rng.choice([-0.5, -0.0, 0.0, 0.25, -np.inf], (3, 5, columns)).astype(np.float32)
    index, weight = top_neighbours(weights, degree)
    for place in np.ndindex(3, 5):
        expected = sorted_row(weights[place], degree)
        rest = [-1] * (degree - len(expected))
        assert index[place].tolist() == expected + rest
        assert weight[place].tolist() == [*weights[place][expected], *(0 for _ in rest)]


@pytest.mark.parametrize("lengths", [[1, 7, 0, 13, 8], [70]])
def test_every_pair_is_counted_as_it_is_compared(monkeypatch, lengths: list[int]):
    monkeypatch.setattr(similarity, "BUDGET", 1 << 12)
    vectors, offsets = drawn(lengths)
    counts: list[int] = []
    neighbours(vectors, offsets, 3, compared=counts.append)
    padded = [-(-length // similarity.GRAIN) * similarity.GRAIN for length in lengths]
    assert sum(counts) == sum(width**2 for width in padded)
    assert len(counts) > 1


def test_a_document_is_bounded_because_time_grows_with_its_square():
    lengths = [2, longest.LONGEST + 1]
    with pytest.raises(LongDocumentError, match=r"100,001.*max_sentences=100000"):
        neighbours(np.zeros((sum(lengths), 1), np.float32), np.cumsum([0, *lengths]), 1)


def test_neighbours_are_in_the_same_document():
    vectors, offsets = drawn([1, 7, 2, 13, 8, 1])
    near = neighbours(vectors, offsets, 8)
    index, weight = expected_neighbours(vectors, offsets, 8)
    np.testing.assert_array_equal(near.index, index)
    np.testing.assert_allclose(near.weight, weight, atol=1e-6)
    assert not near.weight[index < 0].any()


@pytest.mark.parametrize("length", [2, 3, 5, 6, 7, 9, 10, 11, 17, 31])
def test_equal_sentences_tie_exactly(length: int):
    vectors, offsets = drawn([length] * 3, dim=100)  # three: a batch of matrix products
    for start in offsets[:-1]:
        vectors[start + length // 2 : start + length] = vectors[start]
    near = neighbours(vectors, offsets, length - 1)
    copies = [j for j in range(length) if j == 0 or j >= length // 2]
    for start in offsets[:-1]:
        for i in copies:
            others = [start + j for j in copies if j != i]
            assert near.index[start + i, : len(others)].tolist() == others


def test_a_shard_in_the_middle_names_canonical_sentences():
    vectors, offsets = drawn([4, 5, 6, 3])
    whole = neighbours(vectors, offsets, 3)
    shard = neighbours(vectors[4:15], offsets[1:4], 3)
    assert shard.first == 4
    np.testing.assert_array_equal(shard.index, whole.index[4:15])
    np.testing.assert_array_equal(shard.weight, whole.weight[4:15])


def test_bucket_and_block_sizes_change_nothing(monkeypatch: pytest.MonkeyPatch):
    vectors, offsets = drawn([40, 3, 3, 4, 40, 70, 1, 12])
    whole = neighbours(vectors, offsets, 5)
    monkeypatch.setattr(similarity, "BUDGET", 2_000)  # documents alone, the long ones in blocks
    monkeypatch.setattr(similarity, "ROWS", similarity.GRAIN)
    blocked = neighbours(vectors, offsets, 5)
    np.testing.assert_array_equal(blocked.index, whole.index)
    np.testing.assert_allclose(blocked.weight, whole.weight, atol=1e-6)


def test_a_long_document_never_needs_its_whole_matrix(monkeypatch: pytest.MonkeyPatch):
    largest = 0
    honest = similarity.top_neighbours

    def watched(weights: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
        nonlocal largest
        largest = max(largest, weights.nbytes)
        return honest(weights, degree)

    monkeypatch.setattr(similarity, "top_neighbours", watched)
    vectors, offsets = drawn([5_000], dim=4)
    near = neighbours(vectors, offsets, 1)
    assert largest <= max(similarity.BUDGET, 4 * similarity.ROWS * 5_000)
    weights = vectors[4_321] @ vectors.T
    weights[4_321] = -np.inf
    assert near.index[4_321, 0] == weights.argmax()


@pytest.mark.parametrize("broken", [np.nan, np.inf, 3e38])
def test_a_vector_that_is_not_finite_is_named(broken: float):
    vectors, offsets = drawn([3, 1, 4])
    vectors[3, 5] = broken
    with pytest.raises(BadEmbeddingError, match=r"^E201 .*\b103,"):
        neighbours(vectors, offsets + 100, 2)


def test_a_zero_vector_has_no_neighbours(monkeypatch: pytest.MonkeyPatch):
    """A sentence of which a static table knows no word ties with all others."""
    vectors, offsets = drawn([40, 7, 1, 2])
    unknown = np.array([0, 3, 4, 39, 41, 47, 48, 49])
    vectors[unknown] = 0
    monkeypatch.setattr(similarity, "BUDGET", 2_000)  # the long one in blocks
    near = neighbours(vectors, offsets, 5)
    assert (near.index[unknown] == -1).all()
    assert not near.weight[unknown].any()
    np.testing.assert_array_equal(near.index, expected_neighbours(vectors, offsets, 5)[0])


def test_no_documents_have_no_neighbours():
    assert neighbours(np.zeros((0, 3), np.float32), np.array([7]), 2).index.shape == (0, 2)


@pytest.mark.parametrize("min_distance", [2, 4])
def test_sentences_nearer_than_the_distance_are_no_neighbours(
    min_distance: int, monkeypatch: pytest.MonkeyPatch
):
    vectors, offsets = drawn([40, 3, 1, 12])
    monkeypatch.setattr(similarity, "BUDGET", 2_000)  # the long one in blocks
    near = neighbours(vectors, offsets, 5, min_distance)
    expected, _ = expected_neighbours(vectors, offsets, 5, min_distance)
    np.testing.assert_array_equal(near.index, expected)
