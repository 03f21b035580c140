"""What a plan asks the store, and how often.

Run: pytest tests/tasks/test_walking.py
"""

from collections import Counter

from sentemb_core.store import records
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef
from tasks.execution import each_undecided, making_plan, part


def kept(number: int) -> ArtifactRef:
    raise AssertionError("a plan computes nothing")


def joined(one: ArtifactRef, other: ArtifactRef) -> ArtifactRef:
    raise AssertionError("a plan computes nothing")


def test_what_two_parts_of_a_table_share_is_told_to_run_once(home):
    made, made_of = Stage("kept", 1, kept), Stage("joined", 1, joined)
    with making_plan(Store(home)) as plan:
        for label, numbers in {"a": (1, 2), "b": (1, 2), "c": (2, 1)}.items():
            with part(label):
                one, other = (plan.visit(made, {"number": number}) for number in numbers)
                plan.visit(made_of, {"one": one, "other": other})
    assert [(told.part, told.stage, told.verdict) for told in plan.told if told.would_run] == [
        ("a", "kept", "MISS"),
        ("a", "kept", "MISS"),
        ("a", "joined", "AFTER"),
        ("c", "joined", "AFTER"),
    ]
    assert [told.why for told in plan.told if told.verdict == "SAME"] == ["a"] * 5


def doubled(number: int) -> int:
    return 2 * number


def test_what_is_kept_and_what_decides_count_once_too(home):
    store, stage = Store(home), Stage("doubled", 1, doubled)
    stage.run(store, {"number": 1})
    with making_plan(store) as plan:
        for label in ("a", "b"):
            with part(label):
                assert plan.visit(stage, {"number": 1}) == 2
                with each_undecided():
                    plan.visit(stage, {"number": 7})
    verdicts = [(told.part, told.verdict, told.why) for told in plan.told]
    assert verdicts == [
        ("a", "HIT", ""),
        ("a", "MISS", "number 1 -> 7"),
        ("b", "SAME", "a"),
        ("b", "SAME", "a"),
    ]
    assert plan.undecided


def test_a_plan_looks_a_stage_up_once_and_reads_the_records_of_its_name_once(home, monkeypatch):
    store, stage = Store(home), Stage("doubled", 1, doubled)
    for number in range(3):
        stage.run(store, {"number": number})
    asked: Counter[str] = Counter()

    def counted(name):
        function = getattr(records, name)

        def call(*arguments):
            asked[name] += 1
            return function(*arguments)

        monkeypatch.setattr(records, name, call)

    counted("look_up")
    counted("every")
    with making_plan(store) as plan:
        assert plan.visit(stage, {"number": 1}) == 2
        for number in (7, 8):
            with each_undecided():
                plan.visit(stage, {"number": number})
    assert asked == {"look_up": 3, "every": 1}
    assert [told.why for told in plan.told] == ["", "number 2 -> 7", "number 2 -> 8"]
    assert plan.next_key == stage.key({"number": 7}).digest
