"""Promises are kept, and goals met, up to their bounds; NaN misses a promise."""

import json

import pytest

from benchmarks.promises import GOALS, ROWS, goal_table, kept, measured


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


@pytest.mark.parametrize(
    ("key", "value", "verdict"),
    [
        ("rerun", 6.0, "met"),
        ("rerun", 6.1, "missed"),
        ("ranking", 1.0, "met"),
        ("ranking", 0.9, "missed"),
        ("gpu encode", 90_000, "met"),
        ("help", 0.31, "missed"),
    ],
)
def test_a_goal_is_met_up_to_its_bound(key, value, verdict):
    cells = {line.split("|")[1].strip(): line.split("|") for line in goal_table({key: value})}
    assert cells[GOALS[key].row][5].strip() == verdict


def test_the_table_has_all_goals_and_takes_the_numbers_of_scripts(tmp_path, monkeypatch):
    rows = tmp_path / "rows"
    monkeypatch.setenv(ROWS, str(rows))
    measured("where", 0.5)
    (key, value) = json.loads(rows.read_text())
    lines = goal_table({key: value})[2:]
    assert len(lines) == len(GOALS)
    assert [line.split("|")[5].strip() for line in lines].count("not measured") == len(GOALS) - 1
