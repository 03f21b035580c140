"""What a plan says on the terminal: a line a stage, or of a large one a line a part."""

import json
from pathlib import Path

import pytest

from flows.cli.plan_table import MANY, show_told
from sentemb_core.store.objects import Store
from sentemb_core.store.status import Status
from tasks.execution import DryRun


def plan(folder: Path, *told: Status) -> DryRun:
    made = DryRun(Store(folder))
    made.told = [*told]
    return made


def test_a_small_plan_has_a_line_a_stage_and_names_a_part_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [Status("read", "HIT", "", "one"), Status("train", "MISS", "first time", "one")]
    assert show_told(plan(tmp_path, *stages), as_json=False) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        ["one", "read", "HIT"],
        ["train", "MISS", "first", "time"],
        ["1", "of", "2", "stages", "would", "run."],
    ]


def test_a_large_plan_has_a_line_a_part_with_what_runs_and_the_first_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [Status("read", "HIT", "", "kept") for _ in range(MANY)]
    due = [
        Status("read", "HIT", "", "due"),
        Status("train", "MISS", "training.steps 300 -> 400", "due"),
        Status("score", "AFTER", "train", "due"),
        Status("score", "AFTER", "train", "due"),
    ]
    later = [Status("score", "AFTER", "train", "later")]
    again = [Status("train", "SAME", "due", "more"), Status("score", "MISS", "first time", "more")]
    shared = [Status("train", "SAME", "due", "no more")]
    refused = [Status("read", "HIT", "", "no"), Status("", "REFUSED", "E303 no head", "no")]
    every = [*kept, *due, *later, *again, *shared, *refused]
    assert show_told(plan(tmp_path, *every), as_json=False) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        f"kept 0 of {MANY}",
        "due 3 of 4 train, score x2 training.steps 300 -> 400",
        "later 1 of 1 score after train",
        "more 1 of 1 score first time",
        "no more shared all that is known of it is told above, in due",
        "no refused E303 no head",
        f"5 of {MANY + 7} stages would run. 1 part is refused.",
    ]


@pytest.mark.parametrize("others", [0, MANY])
def test_brackets_in_a_reason_are_no_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: int
) -> None:
    why = "corpus.id_column [id] -> [/id]"
    stages = [Status("read", "MISS", why, "one")] * (1 + others)
    assert show_told(plan(tmp_path, *stages), as_json=False) == 0
    assert why in capsys.readouterr().out


def test_a_program_gets_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [Status("read", "HIT", "", "one") for _ in range(MANY + 1)]
    assert show_told(plan(tmp_path, *stages), as_json=True) == 0
    assert len(json.loads(capsys.readouterr().out)) == MANY + 1
