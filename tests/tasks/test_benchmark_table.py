"""The conclusion of a comparison of two models."""

from types import SimpleNamespace

import pytest

from sentemb_core.evaluation.label_free import DOCUMENTS
from tasks.benchmark_table import HALVES, conclusion


def task(name: str, *, averaged: bool, group: str = "sts"):
    return SimpleNamespace(
        task=SimpleNamespace(name=name, averaged=averaged, group=group), missing=[]
    )


SICK = [
    task("STS12", averaged=True),
    task("SICK-R", averaged=True),
    task("SICK-R-all", averaged=False),
]
DEV = [task("STS-B-dev", averaged=False), task("tree_depth", averaged=True, group="probing")]


@pytest.mark.parametrize(
    ("tasks", "winners", "numbers"),
    [
        (SICK, {"STS12": "undecided", "SICK-R": "second", "SICK-R-all": "second"}, (0, 2, 1, 1)),
        (DEV, {"STS-B-dev": "first"}, (1, 1, 0, 0)),
    ],
    ids=["a set inside another counts once", "a set that counts in no average"],
)
def test_conclusion_counts_the_averaged_tasks(tasks, winners, numbers: tuple[int, ...]):
    found = [SimpleNamespace(task=name, winner=winner) for name, winner in winners.items()]
    words = conclusion(found, tasks, "a", "b").replace(";", "").replace(".", "").split()
    assert tuple(int(word) for word in words if word.isdigit()) == numbers


def test_held_out_halves_need_as_many_candidates_as_there_are_documents():
    """A run of fewer candidates trains on some of these documents."""
    assert f"{DOCUMENTS:,}" in HALVES[True]
    assert "validation.candidates" in HALVES[True]
