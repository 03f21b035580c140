"""What a comparison of two models concludes."""

from types import SimpleNamespace

from tasks.tables.duel import conclusion


def row(task: str, verdict: str):
    return SimpleNamespace(task=task, verdict=verdict)


def placed(name: str, *, averaged: bool, group: str = "sts"):
    task = SimpleNamespace(name=name, averaged=averaged, group=group)
    return SimpleNamespace(task=task, missing=[])


def test_a_set_that_holds_another_counts_in_no_conclusion():
    tasks = [
        placed("STS12", averaged=True),
        placed("SICK-R", averaged=True),
        placed("SICK-R-all", averaged=False),
    ]
    rows = [row("STS12", "undecided"), row("SICK-R", "second"), row("SICK-R-all", "second")]
    told = conclusion(rows, tasks, "a", "b")
    assert told.startswith("a is better on 0 of 2 tasks, b on 1; not decided: 1.")
    assert told.endswith("Not counted, as in averages: SICK-R-all.")


def test_where_no_task_counts_in_an_average_all_do_in_the_conclusion():
    tasks = [placed("STS-B-dev", averaged=False), placed("tree_depth", averaged=True, group="x")]
    told = conclusion([row("STS-B-dev", "first")], tasks, "a", "b")
    assert told.startswith("a is better on 1 of 1 task, b on 0")
    assert "Not counted" not in told
