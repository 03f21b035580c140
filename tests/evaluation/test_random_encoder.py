"""Random directions: even, repeatable, one a text."""

import numpy as np
import pytest

from sentemb_core.evaluation import random_encoder
from sentemb_core.evaluation.diagnostics import shape_of
from sentemb_core.evaluation.random_encoder import random_vectors, text_vectors
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant


def test_equal_texts_have_equal_directions():
    vectors = text_vectors(["a", "b", "c", "a"], seed=0)
    assert (vectors[0] == vectors[3]).all()
    assert (text_vectors(["c", "b"], seed=0) == vectors[[2, 1]]).all()


def test_blocks_keep_the_directions(monkeypatch):
    whole = random_vectors(np.arange(10), 16, seed=0)
    monkeypatch.setattr(random_encoder, "BLOCK", 3)
    assert (random_vectors(np.arange(10), 16, seed=0) == whole).all()


def test_directions_depend_on_the_seed():
    ours, theirs = (text_vectors(["a", "b"], seed) for seed in (1, 2))
    assert np.abs((ours * theirs).sum(axis=1)).max() < 0.5


@pytest.mark.parametrize("dim", [1, 7, 64])
def test_directions_have_length_one(dim: int):
    vectors = random_vectors(np.arange(-5, 5), dim, seed=3)
    assert vectors.shape == (10, dim)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_directions_of_consecutive_hashes_are_isotropic():
    shape = shape_of(random_vectors(np.arange(2_000), 64, seed=0), seed=0)
    assert shape.effective_rank > 62
    assert abs(shape.mean_cosine) < 0.002


def test_random_directions_rank_as_chance():
    n = 1_500
    documents = random_vectors(np.arange(n), 32, seed=0)
    titles = random_vectors(np.arange(n, 2 * n), 32, seed=0)
    wanted = Relevant(np.arange(n), np.arange(n), np.arange(n + 1))
    ranks = ranks_of_relevant(documents, titles, wanted, np.arange(n)).rank
    assert ranks.mean() == pytest.approx(n / 2, rel=0.05)
    assert (ranks <= n // 10).mean() == pytest.approx(0.1, abs=0.03)
