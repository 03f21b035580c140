"""Views with some tokens changed: repeated, hidden, deleted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.masked_language import Masking, masked, with_masked_inputs
from sentemb_core.methods.parts.views import IGNORED
from tests import tiny
from tests.methods.drawing import content_rows, framed, listed, seen, texts_of

MASK = 79
MASKING = Masking(rate=0.15, mask_id=MASK, special=(0, 1, 2, 3, MASK), vocabulary=tiny.VOCABULARY)


@given(content_rows, st.floats(0.01, 0.99), st.integers(0, 99))
def test_targets_are_what_masking_hid_and_nothing_else(rows, rate, seed):
    masking = Masking(rate=rate, mask_id=MASK, special=(2, 3), vocabulary=tiny.VOCABULARY)
    view = seen(masked(framed(rows), masking), seed=seed)
    for old, new, target in zip(rows, view.tokens, view.targets, strict=True):
        whole = np.array([2, *old, 3])
        chosen = target != IGNORED
        assert (target[chosen] == whole[chosen]).all()
        assert (new[~chosen] == whole[~chosen]).all()
        assert not chosen[[0, -1]].any()


def test_of_the_chosen_tokens_eight_tenths_are_masked_and_a_tenth_stays():
    words = np.tile(np.arange(4, 79), 400)
    view = seen(masked(texts_of(words), MASKING))
    chosen = view.targets[0] != IGNORED
    new = view.tokens[0][chosen]
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    assert (new == MASK).mean() == pytest.approx(0.8 + 0.1 / tiny.VOCABULARY, abs=0.02)
    assert (new == words[chosen]).mean() == pytest.approx(0.1 + 0.1 / tiny.VOCABULARY, abs=0.02)


def test_any_token_at_all_may_stand_where_one_was_chosen():
    few = Masking(rate=0.9, mask_id=9, special=(), vocabulary=12)
    view = seen(masked(texts_of([5] * 4000), few))
    assert set(view.tokens[0].tolist()) == set(range(12))


def test_an_auxiliary_network_reads_the_noise_and_the_encoder_the_text():
    rows = [list(range(4, 60))] * 4
    view = seen(with_masked_inputs(framed(rows), MASKING))
    assert listed(view.tokens) == [[2, *row, 3] for row in rows]
    assert listed(view.inputs) == listed(seen(masked(framed(rows), MASKING)).tokens)
    assert any(MASK in row for row in listed(view.inputs))


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, float("nan")])
def test_a_masking_rate_outside_0_and_1_is_refused(rate):
    with pytest.raises(RecipeError, match=f"found {rate}"):
        Masking(rate=rate, mask_id=MASK, special=(), vocabulary=9)
