"""What a plan says: every stage, and why it would run or not."""

from typing import TYPE_CHECKING

from sentemb_core.console import emit, plain, show

if TYPE_CHECKING:
    from tasks.caching import Plan


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


def summary(plan: "Plan") -> str:
    """How much of it would run."""
    run = sum(told.verdict != "HIT" for told in plan.told)
    if not run:
        return "Nothing would run."
    then = ", and then what their results (scores, counts) decide" if plan.undecided else ""
    return f"{run} of {len(plan.told)} stages would run{then}."
