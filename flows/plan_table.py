"""What a plan says: every stage, and why it would run or not."""

from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.console import emit, plain, show

if TYPE_CHECKING:
    from tasks.walking import Plan


def show_told(plan: "Plan", as_json: bool) -> int:
    if as_json:
        emit([vars(told) for told in plan.told])
        return 0
    from rich.table import Table

    table = Table("part", "stage", "", "why", box=None)
    before = ""
    for told in plan.told:
        table.add_row(
            plain(told.part) if told.part != before else "", told.stage, told.verdict, told.why
        )
        before = told.part
    show(table, summary(plan))
    return 0


def goes_on(plan: "Plan") -> str:
    """Where a run that was ended goes on."""
    kept = sum(told.verdict == "HIT" for told in plan.told)
    missing = next((told for told in plan.told if told.verdict == "MISS"), None)
    if missing is None:
        return f"All {kept} stages are kept: what is left is the registry and the report."
    part = f" ({missing.part})" if missing.part else ""
    step = last_step(plan.store.root / "work" / f"{missing.stage}-{plan.next_key}")
    how = f"goes on after its step {step:,}" if step else "starts anew: no checkpoint of it is kept"
    return f"{kept} finished stages are kept. {missing.stage}{part} {how}."


def last_step(work: Path) -> int:
    """The last checkpoint of a training in its working folder (`training.checkpoint`), else 0."""
    names = [path.stem.removeprefix("step-") for path in work.glob("step-*.json")]
    return max(map(int, names), default=0)


def summary(plan: "Plan") -> str:
    """How much of it would run."""
    run = sum(told.verdict != "HIT" for told in plan.told)
    if not run:
        return "Nothing would run."
    then = ", and then what their results (scores, counts) decide" if plan.undecided else ""
    return f"{run} of {len(plan.told)} stages would run{then}."
