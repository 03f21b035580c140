"""What a plan says: every stage, and why it would run or not."""

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

from sentemb_core.console import emit, show, terminal_table
from sentemb_core.formats import are, counted

if TYPE_CHECKING:
    from sentemb_core.store.status import Status
    from tasks.execution import DryRun

MANY = 60
"""Stages, above which a plan is told a line a part: nobody reads the 877 of a paper's table."""


def planned(walk: Callable[[], object], as_json: bool) -> int:
    """Show what each stage of a flow would do, found by walking its code."""
    from sentemb_core.store.objects import Store
    from tasks.execution import making_plan

    with making_plan(Store.default()) as plan:
        walk()
    return show_told(plan, as_json)


def show_told(plan: "DryRun", as_json: bool) -> int:
    if as_json:
        emit([vars(told) for told in plan.told])
        return 0
    parts = [(part, [*told]) for part, told in groupby(plan.told, lambda told: told.part)]
    if len(plan.told) > MANY:
        head = ("part", "would run", "which", "why the first")
        rows = [(part, *_told_together(told)) for part, told in parts]
    else:
        head = ("part", "stage", "", "why")
        rows = [
            ("" if place else part, one.stage, one.verdict, one.why)
            for part, told in parts
            for place, one in enumerate(told)
        ]
    show(terminal_table(head, rows), summary(plan))
    return 0


def _told_together(stages: "list[Status]") -> tuple[str, str, str]:
    """How many stages of a part would run, which, and why the first of them.

    Those that a part above has, too, are counted there.
    """
    if refused := next((told for told in stages if told.verdict == "REFUSED"), None):
        return "refused", "", refused.why
    own = [told for told in stages if told.verdict != "SAME"]
    if not own:
        return "shared", "", f"all that is known of it is told above, in {stages[-1].why}"
    run = [told for told in stages if told.would_run]
    times = Counter(told.stage for told in run)
    which = [f"{name} x{count}" if count > 1 else name for name, count in times.items()]
    why = f"{'after ' if run[0].verdict == 'AFTER' else ''}{run[0].why}" if run else ""
    return f"{len(run)} of {len(own)}", ", ".join(which), why


def goes_on(plan: "DryRun") -> str:
    """Where a run that was ended goes on."""
    from tasks.execution import step_kept

    kept = sum(told.verdict == "HIT" for told in plan.told)
    missing = next((told for told in plan.told if told.verdict == "MISS"), None)
    if missing is None:
        return f"All stages ({kept}) are kept: what is left is the registry and the report."
    part = f" ({missing.part})" if missing.part else ""
    step = step_kept(plan.store, missing.stage, plan.next_key)
    how = f"goes on after its step {step:,}" if step else "starts anew: no checkpoint of it is kept"
    stages = f"{counted(kept, 'finished stage')} {are(kept)} kept"
    return f"{stages}. {missing.stage}{part} {how}."


def summary(plan: "DryRun") -> str:
    """How much of it would run, whatever parts share once."""
    run = sum(told.would_run for told in plan.told)
    stages = sum(told.verdict not in ("SAME", "REFUSED") for told in plan.told)
    refused = sum(told.verdict == "REFUSED" for told in plan.told)
    end = f" {counted(refused, 'part')} {are(refused)} refused." if refused else ""
    if not run:
        return f"Nothing would run.{end}"
    then = ", and then what their results (scores, counts) decide" if plan.undecided else ""
    return f"{run} of {counted(stages, 'stage')} would run{then}.{end}"
