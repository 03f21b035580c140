"""Notes of a benchmark, and the overlap with several training corpora."""

from types import SimpleNamespace

import pytest

from sentemb_core.evaluation.contamination import Overlap
from sentemb_core.evaluation.label_free import DOCUMENTS
from tasks.artifacts import save_json
from tasks.benchmark import largest_overlaps
from tasks.benchmark_rows import Scoreboard, board_rows
from tasks.benchmark_table import HALVES, board_json, board_terminal, conclusion
from tasks.results import ResultRow


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
    verdicts = {"first": "a", "second": "b", "undecided": "not decided"}
    rows = [
        ResultRow(
            system="a", baseline="b", metric="m", task=name, factors={"verdict": verdicts[winner]}
        )
        for name, winner in winners.items()
    ]
    board = SimpleNamespace(models={"a": "", "b": ""}, tasks=tasks)
    (text,) = conclusion(board, rows)
    words = text.replace(";", "").replace(".", "").split()
    assert tuple(int(word) for word in words if word.isdigit()) == numbers


def test_held_out_halves_need_as_many_candidates_as_there_are_documents():
    """A run of fewer candidates trains on some of these documents."""
    assert f"{DOCUMENTS:,}" in HALVES["yes"]
    assert "validation.candidates" in HALVES["yes"]


def test_display_reads_the_results_once(monkeypatch: pytest.MonkeyPatch):
    read: list[Scoreboard] = []

    def counted(board: Scoreboard) -> list[ResultRow]:
        read.append(board)
        return board_rows(board)

    monkeypatch.setattr("tasks.benchmark_rows.board_rows", counted)
    board = Scoreboard(run="", models={}, systems={}, fixed=[], tasks=[], scores=[])
    board_terminal(board)
    board_json(board)
    assert len(read) == 1


@pytest.mark.usefixtures("home")
def test_largest_overlap_is_taken_over_corpora():
    """The corpus that has most of the one may have little of the other."""

    def overlap(exact: float, runs: float | None) -> Overlap:
        return Overlap(texts=100, exact=exact, runs=runs)

    read = [
        {"STS-B": overlap(0.0, 0.02), "SST2": overlap(0.1, None)},
        {"STS-B": overlap(0.5, 0.01), "SST2": overlap(0.3, None)},
    ]
    kept = [
        save_json("overlap", {name: one.model_dump() for name, one in of_corpus.items()})
        for of_corpus in read
    ]
    expected = {"STS-B": overlap(0.5, 0.02), "SST2": overlap(0.3, None)}
    assert largest_overlaps(kept) == largest_overlaps(kept[::-1]) == expected
