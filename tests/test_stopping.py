"""When rounds stop and which one is best."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.stopping import verdict


def test_mutual_stops_after_round_three_and_keeps_round_two():
    scores = [0.4257, 0.5721, 0.6345, 0.6341]
    for known in range(1, 4):
        assert verdict(scores[:known], patience=1).go_on
    said = verdict(scores, patience=1)
    assert (said.best, said.go_on) == (2, False)


def test_the_start_stays_best_if_no_round_beats_it():
    assert verdict([0.5, 0.4], patience=1).best == 0
    assert verdict([0.5, 0.5], patience=1).best == 0


def test_small_growth_is_noise_to_patience_but_still_the_best():
    said = verdict([0.5, 0.505], patience=1, min_delta=0.01)
    assert (said.best, said.go_on) == (1, False)


def test_small_steps_may_add_up_to_growth():
    assert verdict([0.5, 0.506, 0.512], patience=2, min_delta=0.01).go_on


def test_a_limit_of_rounds_ends_it_even_while_it_grows():
    assert verdict([0.1, 0.2], limit=2).go_on
    assert not verdict([0.1, 0.2, 0.3], limit=2).go_on


def test_a_score_that_is_no_number_is_never_best():
    assert verdict([math.nan, 0.1, math.nan], patience=3).best == 1
    assert not verdict([0.1, math.nan], patience=1).go_on


def test_without_scores_there_is_no_verdict():
    with pytest.raises(ValueError, match="score of the start"):
        verdict([])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 4))
@settings(deadline=None, max_examples=100)
def test_it_stops_exactly_when_the_last_scores_did_not_grow(scores, patience):
    said = verdict(scores, patience=patience)
    assert scores[said.best] == max(scores)
    waited = len(scores) - 1 - scores.index(max(scores))
    assert said.go_on == (waited < patience)
