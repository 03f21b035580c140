"""What a dry run reports of every stage, and which errors stay in their part of a table."""

from collections import Counter

import pytest
from httpx import ConnectError, Request, Response
from prefect.exceptions import PrefectHTTPStatusError

from sentemb_core.errors import EmptyPairsError, StorageError
from sentemb_core.store import records
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef
from tasks.execution import dry_run, isolate_errors, section, skip_unknown_results


def stored(number: int) -> ArtifactRef:
    raise AssertionError("a dry run computes nothing")


def joined(left: ArtifactRef, right: ArtifactRef) -> ArtifactRef:
    raise AssertionError("a dry run computes nothing")


def doubled(number: int) -> int:
    return 2 * number


def test_a_stage_that_two_sections_share_is_reported_to_run_once(home):
    store, join = Stage("stored", 1, stored), Stage("joined", 1, joined)
    with dry_run() as plan:
        for label, numbers in {"a": (1, 2), "b": (1, 2), "c": (2, 1)}.items():
            with section(label):
                left, right = (plan.run_stage(store, {"number": number}) for number in numbers)
                plan.run_stage(join, {"left": left, "right": right})
    would_run = [status for status in plan.statuses if status.would_run]
    assert [(status.part, status.stage, status.verdict) for status in would_run] == [
        ("a", "stored", "MISS"),
        ("a", "stored", "MISS"),
        ("a", "joined", "AFTER"),
        ("c", "joined", "AFTER"),
    ]
    assert [status.why for status in plan.statuses if status.verdict == "SAME"] == ["a"] * 5


def test_a_stage_waits_for_the_pending_stage_that_is_listed_last(home):
    first, last = Stage("stored", 1, stored), Stage("trained", 1, stored)
    join, other = Stage("joined", 1, joined), Stage("other", 1, joined)
    with dry_run() as plan:
        early = plan.run_stage(first, {"number": 1})
        late = plan.run_stage(last, {"number": 1})
        assert plan.run_stage(first, {"number": 1}) == early, "the same, listed again"
        plan.run_stage(join, {"left": late, "right": early})
        plan.run_stage(other, {"left": early, "right": late})
    waiting = [status for status in plan.statuses if status.verdict == "AFTER"]
    assert [(status.stage, status.why) for status in waiting] == [
        ("joined", "trained"),
        ("other", "trained"),
    ]


def test_hits_and_unknown_results_count_once_too(home):
    store, stage = Store(home), Stage("doubled", 1, doubled)
    stage.run(store, {"number": 1})
    with dry_run() as plan:
        for label in ("a", "b"):
            with section(label):
                assert plan.run_stage(stage, {"number": 1}) == 2
                with skip_unknown_results():
                    plan.run_stage(stage, {"number": 7})
    assert [(status.part, status.verdict, status.why) for status in plan.statuses] == [
        ("a", "HIT", ""),
        ("a", "MISS", "number 1 -> 7"),
        ("b", "SAME", "a"),
        ("b", "SAME", "a"),
    ]
    assert plan.incomplete


def test_a_stage_is_looked_up_once_and_its_records_are_read_once(home, monkeypatch):
    store, stage = Store(home), Stage("doubled", 1, doubled)
    for number in range(3):
        stage.run(store, {"number": number})
    calls: Counter[str] = Counter()

    def count(name):
        function = getattr(records, name)

        def call(*arguments):
            calls[name] += 1
            return function(*arguments)

        monkeypatch.setattr(records, name, call)

    count("look_up")
    count("all_records")
    with dry_run() as plan:
        assert plan.run_stage(stage, {"number": 1}) == 2
        for number in (7, 8):
            with skip_unknown_results():
                plan.run_stage(stage, {"number": number})
    assert calls == {"look_up": 3, "all_records": 1}
    assert [status.why for status in plan.statuses] == ["", "number 2 -> 7", "number 2 -> 8"]
    assert plan.next_key == stage.key({"number": 7}).digest


def failing(error: Exception):
    def compute() -> None:
        raise error

    return compute


def test_a_part_returns_its_result_or_its_error():
    assert isolate_errors("x", lambda: 3) == (3, "")
    assert isolate_errors("x", failing(EmptyPairsError("no pair"))) == (None, "E102 no pair")
    assert isolate_errors("x", failing(KeyError("k"))) == (None, "E000 KeyError: 'k'")


@pytest.mark.parametrize(
    "error",
    [
        StorageError("full"),
        ConnectError("gone"),
        PrefectHTTPStatusError(
            "busy", request=Request("GET", "http://127.0.0.1:9/api"), response=Response(503)
        ),
    ],
)
def test_an_error_of_every_part_is_raised(error: Exception):
    with pytest.raises(type(error)):
        isolate_errors("x", failing(error))


@pytest.mark.parametrize(
    ("cause", "code"), [(EmptyPairsError("no pair"), "E102"), (KeyError("k"), "E000")]
)
def test_a_dry_run_reports_a_refused_part(cause: Exception, code: str):
    with dry_run() as plan:
        _, error = isolate_errors("x", failing(cause))
    assert error.startswith(code)
    assert [(one.verdict, one.why, one.part) for one in plan.statuses] == [("REFUSED", error, "x")]
