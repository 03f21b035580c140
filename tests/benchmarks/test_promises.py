"""A promise is kept up to its bound; a value that is not a number misses it."""

import pytest

from benchmarks.promises import kept


@pytest.mark.parametrize(
    ("value", "bounds", "expected"),
    [
        (2.0, {"at_least": 2}, True),
        (1.9, {"at_least": 2}, False),
        (5.0, {"at_most": 5}, True),
        (5.1, {"at_most": 5}, False),
        (-2.9, {"at_most": 5}, True),
        (float("nan"), {"at_most": 5}, False),
    ],
)
def test_a_promise_is_kept_up_to_its_bound(value, bounds, expected, capsys):
    assert kept("growth", value, **bounds) is expected
    line = capsys.readouterr().out
    assert [f"growth: {value:.2f}" in line, "MISSED" in line] == [True, not expected]
    (bound,) = bounds.values()
    assert f" {bound}: " in line
