"""How a verb executes a flow: with a log and a server, or as a dry run that shows its stages."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from flows.environment import home, log_file
from flows.logs import interruption, logged, server_lost
from flows.server import served
from sentemb_core.console import emit, remark, show, terminal_table
from sentemb_core.errors import BadDataError, RegistryError, StorageError
from sentemb_core.formats import are, counted
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import read_run, runs_of_this_process
from sentemb_core.termination import send_no_more
from tasks.checks import check_faiss
from tasks.execution import without_prefect

if TYPE_CHECKING:
    from sentemb_core.store.status import Status
    from tasks.execution import DryRun

R = TypeVar("R")

MANY = 60
"""Stages above which a dry run shows one line per part; a table of a paper has up to 877."""


class Job(NamedTuple):
    """What the record of a run asks for. Both functions take `as_json` and return an exit code."""

    run: Callable[[bool], int]
    dry_run: Callable[[bool], int]


def import_models() -> None:
    """Import torch and transformers, which every computation needs."""
    import_module("sentemb_core.encoder.checkpoint")


def run_flow(
    flow: Callable[[], R],
    meanwhile: Callable[[], object] = import_models,
    *,
    computes: bool = True,
) -> R:
    """Run a flow under Prefect with a log file, and return its result.

    `meanwhile` is called while a server starts.

    Prefect only shows a run. If its server does not start, is too busy or ends, the flow goes on
    without it, from the last finished stage or checkpoint. No server starts for a flow that
    `computes` nothing. After other errors, print how to resume.

    Raises:
        UsageError: both faiss wheels are installed.
    """
    check_faiss(needed=False)
    log, earlier = log_file(), len(runs_of_this_process())
    by_prefect = computes or bool(os.environ.get("PREFECT_API_URL"))
    if not by_prefect:
        remark("All stages are cached: nothing is computed, and Prefect is not started.")
    else:
        remark("Starting Prefect, its server and MLflow. This takes some seconds.")
    if not (home() / "mlflow.db").exists():
        remark("The first run in this home also creates their databases.")
    try:
        with logged(log, by_prefect=by_prefect):
            if by_prefect:
                return with_or_without_prefect(flow, log.with_name("server.log"), meanwhile)
            with without_prefect():
                return flow()
    except (KeyboardInterrupt, RegistryError, StorageError):  # registration is the last step
        remark(how_to_resume(runs_of_this_process()[earlier:]))
        raise


def with_or_without_prefect(
    flow: Callable[[], R], log: Path, meanwhile: Callable[[], object] = import_models
) -> R:
    """Run a flow under Prefect, whose server logs to `log`; if that fails, run it without."""
    earlier = len(runs_of_this_process())
    try:
        with served(log, meanwhile):
            return flow()
    except Exception as error:
        reason = None if interruption(error) else server_lost(error)
        if reason is None:
            raise
    remark(
        f"Prefect's server {reason}. The run goes on without it: its results are complete, its "
        "pages stop here."
    )
    from tasks.run_monitor import resuming

    logging.getLogger("prefect").setLevel(logging.CRITICAL)  # its threads report every event
    send_no_more()
    begun = runs_of_this_process()[earlier:]  # a flow of several runs starts new ones
    with without_prefect(), resuming(begun[0] if len(begun) == 1 else None):
        return flow()


LEGEND = (
    "HIT: cached. MISS: would run. AFTER: depends on a stage that would run. SAME: shared with "
    "an earlier part. REFUSED: cannot run; the reason stands beside it."
)


def how_to_resume(runs: Sequence[str]) -> str:
    """Return what is saved of the last of these runs, and the command that resumes it."""
    run = read_run(Store.default(), runs[-1]) if runs else None
    if run is None:
        return "Finished stages are saved. Repeat the command to continue."
    saved = len(run.stages)
    return (
        f"Saved: {counted(saved, 'finished stage')}, and the last checkpoint of each training. "
        f"Continue with `python -m flows resume {run.id}`."
    )


def exit_code_of(errors: Iterable[str]) -> int:
    """Return 3 (bad data) if a part of a table failed, else 0."""
    return BadDataError.exit_code if any(errors) else 0


def dry_run_of(flow: Callable[[], object], as_json: bool) -> int:
    """Show what each stage of a flow would do, without computing anything."""
    from tasks.execution import dry_run

    with dry_run() as plan:
        flow()
    return show_dry_run(plan, as_json)


def show_dry_run(plan: "DryRun", as_json: bool) -> int:
    if as_json:
        emit([vars(status) for status in plan.statuses])
        return 0
    parts = [(part, [*group]) for part, group in groupby(plan.statuses, lambda status: status.part)]
    if len(plan.statuses) > MANY:
        head = ("part", "would run", "which", "why the first")
        rows = [(part, *summary_of_part(stages)) for part, stages in parts]
    else:
        head = ("part", "stage", "", "why")
        rows = [
            ("" if place else part, status.stage, status.verdict, status.why)
            for part, stages in parts
            for place, status in enumerate(stages)
        ]
    legend = () if len(plan.statuses) > MANY else (LEGEND,)
    show(terminal_table(head, rows), summary(plan), *legend)
    return 0


def summary_of_part(stages: "list[Status]") -> tuple[str, str, str]:
    """How many stages of a part would run, which, and why the first.

    Stages that an earlier part also has are counted there.
    """
    if refused := next((status for status in stages if status.verdict == "REFUSED"), None):
        return "refused", "", refused.why
    own = [status for status in stages if status.verdict != "SAME"]
    if not own:
        return "shared", "", f"same stages as {stages[-1].why}"
    run = [status for status in stages if status.would_run]
    times = Counter(status.stage for status in run)
    which = [f"{name} x{count}" if count > 1 else name for name, count in times.items()]
    why = f"{'after ' if run[0].verdict == 'AFTER' else ''}{run[0].why}" if run else ""
    return f"{len(run)} of {len(own)}", ", ".join(which), why


def summary(plan: "DryRun") -> str:
    """How many stages would run; shared stages count once."""
    run = sum(status.would_run for status in plan.statuses)
    stages = sum(status.verdict not in ("SAME", "REFUSED") for status in plan.statuses)
    refused = sum(status.verdict == "REFUSED" for status in plan.statuses)
    end = f" {counted(refused, 'part')} {are(refused)} refused." if refused else ""
    if not run:
        return f"Nothing would run.{end}"
    later = " Later stages depend on their results." if plan.incomplete else ""
    return f"{run} of {counted(stages, 'stage')} would run.{later}{end}"


def where_it_continues(plan: "DryRun") -> str:
    """Return at which stage, and at which step of a training, a run continues."""
    from tasks.execution import last_checkpoint_step

    saved = sum(status.verdict == "HIT" for status in plan.statuses)
    missing = next((status for status in plan.statuses if status.verdict == "MISS"), None)
    if missing is None:
        return f"All {saved} stages are saved; registration and report are left."
    part = f" ({missing.part})" if missing.part else ""
    step = last_checkpoint_step(missing.stage, plan.next_key)
    how = f"continues after step {step:,}" if step else "starts at step 0 (no checkpoint)"
    return f"{counted(saved, 'finished stage')} {are(saved)} saved. {missing.stage}{part} {how}."
