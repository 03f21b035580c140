import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.stopping import stopping_decision


def test_the_paper_stops_after_round_three_and_keeps_round_two():
    scores = [0.4257, 0.5721, 0.6345, 0.6341]  # mutual, Table 3
    for known in range(1, 4):
        assert stopping_decision(scores[:known], patience=1).go_on
    decision = stopping_decision(scores, patience=1)
    assert (decision.best, decision.go_on) == (2, False)


@pytest.mark.parametrize(
    ("scores", "options", "best", "go_on"),
    [
        ([0.5, 0.4], {"patience": 1}, 0, False),
        ([0.5, 0.5], {"patience": 1}, 0, False),
        ([0.5, 0.505], {"patience": 1, "min_delta": 0.01}, 1, False),
        ([0.5, 0.506, 0.512], {"patience": 2, "min_delta": 0.01}, 2, True),
        ([0.1, 0.2], {"limit": 2}, 1, True),
        ([0.1, 0.2, 0.3], {"limit": 2}, 2, False),
        ([math.nan, 0.1, math.nan], {"patience": 3}, 1, True),
        ([0.1, math.nan], {"patience": 1}, 0, False),
    ],
)
def test_patience_delta_limit_and_nan(scores, options, best, go_on):
    decision = stopping_decision(scores, **options)
    assert (decision.best, decision.go_on) == (best, go_on)


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="score"):  # `max` would refuse an empty list, too
        stopping_decision([])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 4))
def test_it_stops_exactly_when_the_last_scores_did_not_improve(scores, patience):
    decision = stopping_decision(scores, patience=patience)
    assert scores[decision.best] == max(scores)
    waited = len(scores) - 1 - scores.index(max(scores))
    assert decision.go_on == (waited < patience)
