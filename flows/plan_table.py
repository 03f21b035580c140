"""What a plan says: every stage, and why it would run or not."""

from typing import TYPE_CHECKING

from sentemb_core.console import emit, show

if TYPE_CHECKING:
    from tasks.caching import Plan


def show_told(plan: "Plan", as_json: bool) -> int:
    if as_json:
        emit([{"stage": s.stage, "verdict": s.verdict, "why": s.why} for s in plan.told])
        return 0
    from rich.table import Table

    table = Table("stage", "", "why", box=None)
    for told in plan.told:
        table.add_row(told.stage, told.verdict, told.why)
    show(table)
    if plan.undecided:
        show("What follows depends on what is not known yet (scores, numbers of labels).")
    return 0
