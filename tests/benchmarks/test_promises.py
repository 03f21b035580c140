"""A bench ends with 1 where a promise is missed: what misses one, and what does not."""

import pytest

from benchmarks.promises import kept


@pytest.mark.parametrize(
    ("value", "bounds", "holds"),
    [
        (2.0, {"at_least": 2}, True),
        (1.9, {"at_least": 2}, False),
        (5.0, {"at_most": 5}, True),
        (5.1, {"at_most": 5}, False),
        (-2.9, {"at_most": 5}, True),
        (float("nan"), {"at_most": 5}, False),
    ],
)
def test_a_promise_holds_up_to_its_bound(value, bounds, holds, capsys):
    assert kept("growth", value, **bounds) is holds
    ((words, bound),) = bounds.items()
    told = f"{words.replace('_', ' ')} {bound}: {'kept' if holds else 'MISSED'}"
    assert told in capsys.readouterr().out
