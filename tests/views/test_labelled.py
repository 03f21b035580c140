"""The two sides of a labelled pair."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.methods.fine_tune import body, counterpart
from tests.views.drawn import every_document, listed, numbered, words


def seen(maker, corpus, seed=0):
    return maker(corpus, every_document(corpus), np.random.default_rng(seed))


def test_the_counterpart_is_the_last_sentence():
    corpus = numbered([3, 2])
    assert [words(row) for row in seen(counterpart, corpus).tokens] == [[2], [4]]


@given(st.lists(st.integers(2, 9), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_a_body_is_some_sentences_of_its_document_and_never_the_counterpart(counts, most, seed):
    corpus = numbered(counts)
    view = seen(body(most), corpus, seed)
    for k, (begin, count) in enumerate(zip(corpus.offsets[:-1].tolist(), counts, strict=True)):
        mine = [words(view.tokens[row])[0] for row in np.flatnonzero(view.owner == k)]
        assert len(mine) == len(set(mine)) == min(most, count - 1)
        assert mine == sorted(mine)
        assert set(mine) <= set(range(begin, begin + count - 1))
        np.testing.assert_allclose(view.weight[view.owner == k].sum(), 1)
    assert (view.document == view.owner).all()


def test_every_step_draws_anew():
    corpus = numbered([9])
    drawn = {tuple(map(tuple, listed(seen(body(2), corpus, seed).tokens))) for seed in range(20)}
    assert len(drawn) > 5
