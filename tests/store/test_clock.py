"""A clock that stands, goes back or leaps forward costs no run and no artifact.

Run: pytest tests/store/test_clock.py
"""

import time

import pytest

from sentemb_core.store import runs
from sentemb_core.store.maintenance import HOUR, collect

DAY = 24 * HOUR
NOW = 1_900_000_000.0


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(time, "time", lambda: seconds)
    monkeypatch.setattr(time, "time_ns", lambda: int(seconds * 1e9))


def run(chain, store, name: str, **options):
    with runs.recording(store, name, [], {}):
        return chain.run_chain(**options)


def test_runs_of_one_second_are_all_listed_in_one_order(chain, store, monkeypatch):
    at(monkeypatch, NOW)
    for name in ("b", "a", "c"):
        run(chain, store, name)
    assert [one.id for one in runs.last_runs(store)] == ["c", "b", "a"]


@pytest.mark.parametrize("leap", [-DAY, DAY, -20 * 365 * DAY])
def test_an_unchanged_rerun_runs_nothing_whatever_the_clock_says(chain, store, monkeypatch, leap):
    at(monkeypatch, NOW)
    first = run(chain, store, "before")
    ran = len(chain.RAN)
    at(monkeypatch, NOW + leap)
    assert run(chain, store, "after") == first
    assert len(chain.RAN) == ran
    assert {one.state for one in runs.last_runs(store)} == {"completed"}


@pytest.mark.parametrize("leap", [-DAY, DAY])
def test_gc_keeps_what_a_run_that_goes_on_has_made(chain, store, monkeypatch, leap):
    """Files carry the machine's own time; the run began at another."""
    machine = time.time()
    at(monkeypatch, machine)
    with runs.recording(store, "going-on", [], {}):
        made = chain.run_chain()
        at(monkeypatch, machine + leap)
        garbage = collect(store, [], keep_runs=0)
        assert garbage.counts["objects"] == 0
        assert store.path(made.model).exists()
