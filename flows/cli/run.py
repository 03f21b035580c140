"""`demo`, `run`, `resume` and `status`: start a run, continue it, show what it would do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.execute import Job, import_models, run_flow, show_dry_run, where_it_continues
from flows.cli.records import (
    find_run,
    require_same_corpus,
    stored_outcome,
    unfinished_run,
    waiting_runs,
)
from flows.cli.reproduce import table_job
from flows.cli.settings import AnyRun, by_path, checked, settings
from flows.environment import prepare
from flows.presets import preset_warnings
from sentemb_core.config.run import FineTuneRun, InfoCSEIDC, InfoCSEPlus, MethodRun
from sentemb_core.console import emit, log_to_stderr, print_result, remark, show
from sentemb_core.errors import SentembError
from sentemb_core.formats import counted
from sentemb_core.store.runs import runs_of_this_process
from tasks.checks import check_run
from tasks.registered_encoders import with_local_encoders

if TYPE_CHECKING:
    from flows.demo import Way
    from flows.pipeline import OnRow
    from sentemb_core.store.runs import Run
    from tasks.artifacts import EncoderResult, RunResult
    from tasks.execution import DryRun
    from tasks.report import Outcome
    from tasks.results import ResultTable

    Loop = Callable[[Any, OnRow], RunResult]

LISTED = 5
"""Waiting runs that `resume` and `status` list."""


def demo_command(only: "Way | None", *, dry_run: bool, as_json: bool) -> int:
    prepare()
    from flows.demo import WAYS, closing_sentence, demo, encoders_table, outcome_table
    from tasks.results import terminal

    ways: list[Way] = [only] if only else list(WAYS)
    if dry_run:
        return dry_run_of_demo([WAYS[way] for way in ways], as_json)
    outcomes = run_flow(partial(demo, ways))
    values = {way: outcome.model_dump(mode="json") for way, outcome in outcomes.items()}
    reports = [f"Report of {WAYS[way].name}: {run.report}" for way, run in outcomes.items()]
    tables = [terminal(encoders_table(outcomes)), *reports, terminal(outcome_table(outcomes))]
    return print_result(values, *tables, closing_sentence(outcomes), as_json=as_json)


def run_command(
    file: Path | None,
    source: str | None,
    columns: Mapping[str, str | bool],
    options: Mapping[str, Any],
    overrides: Sequence[str],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    corpus = {f"corpus.{name}": value for name, value in columns.items()}
    config = settings(file, {"corpus.source": source} | corpus | by_path(options), overrides)
    prepare()
    return dry_run_config(config, as_json) if dry_run else run_config(config, as_json)


def resume_command(run: str | None, as_json: bool) -> int:
    prepare()
    record = unfinished_run(run)
    if run is None:
        why = f"{record.state}: {record.error}" if record.error else record.state
        remark(f"Resuming run {record.id} ({why}).")
        others = [f"{other.id} ({other.state})" for other in waiting_runs() if other != record]
        more = f" and {len(others) - LISTED:,} more" if len(others) > LISTED else ""
        if others:
            remark(f"Other runs to resume by id: {', '.join(others[:LISTED])}{more}.")
    from tasks.run_monitor import resuming

    with resuming(record.id):
        return job_of(record).run(as_json)


def status_command(run: str | None, as_json: bool) -> int:
    prepare()
    record = find_run(run)
    if not as_json:
        name = f" of {record.config['name']!r}" if "name" in record.config else ""
        show(f"{'Run' if run else 'Last run'} {record.id}{name}: {state_of(record)}")
        waiting = [] if run else [other for other in waiting_runs() if other != record]
        for other in waiting[:LISTED]:
            show(f"Run to resume: {other.id}, {state_of(other)}")
        if len(waiting) > LISTED:
            show(f"Waiting, not listed: {counted(len(waiting) - LISTED, 'run')}.")
    return job_of(record).dry_run(as_json)


def state_of(run: "Run") -> str:
    """State of a run; of an unfinished one also the error and how to resume it."""
    if run.state not in ("failed", "killed"):
        return f"{run.state}."
    why = f": {run.error}" if run.error else ""
    return f"{run.state}{why}\nResume it with `python -m flows resume {run.id}`."


def job_of(record: "Run") -> Job:
    """What a record asks for: a table, or a run."""
    if job := table_job(record.config):
        return job
    config = checked(record.config)
    return Job(partial(run_config, config, resumed=record), partial(dry_run_config, config))


def run_config(config: AnyRun, as_json: bool, *, resumed: "Run | None" = None) -> int:
    check(config)
    if resumed:
        require_same_corpus(resumed, config)
        remark(where_it_continues(plan_of(config)))
    else:
        remark(f"Start encoder: {config.encoder.name} (change: --encoder).")
        if config.register_model:
            remark(f"The result will be registered as models:/{config.name} (change: --name).")
    earlier = len(runs_of_this_process())
    try:
        flow, meanwhile = partial(run_of, config), partial(begin, config)
        outcome = run_flow(flow, meanwhile, computes=computes_stages(config))
    except SentembError:  # of the registry: the run has its result
        for run in runs_of_this_process()[earlier:]:
            if found := stored_outcome(find_run(run)):
                print_outcome(found, config, as_json)
        raise
    return print_outcome(outcome, config, as_json)


def print_outcome(outcome: "Outcome", config: AnyRun, as_json: bool) -> int:
    """Print the verdict, tables and closing lines of a run, or its outcome as JSON."""
    if as_json:
        emit(outcome.model_dump(mode="json"))
        return 0
    from tasks.results import terminal

    tables = [terminal(table) for table in tables_of(outcome, config)]
    head, *lines = closing_lines(outcome, config)
    show(head, *tables, *lines)
    return 0


def computes_stages(config: AnyRun) -> bool:
    """Return whether a stage of a run would run, or may: an error is left to the run itself."""
    try:
        plan = plan_of(config)
    except Exception:
        return True
    return plan.incomplete or any(status.would_run for status in plan.statuses)


def begin(config: AnyRun) -> None:
    """Import what a run needs, and compute its first stages, while a server starts.

    The run finds these stages cached. It raises their errors again, and records them.
    """
    from flows.pipeline import texts_and_start
    from tasks.execution import without_prefect
    from tasks.workers import workers_of

    import_models()
    with suppress(Exception), without_prefect(), workers_of(config):
        texts_and_start(config)


def tables_of(outcome: "Outcome", config: AnyRun) -> "list[ResultTable]":
    """What a run returned beside its baselines, and all of its encoders."""
    from tasks.report import counterpart_of
    from tasks.run_table import outcome_table
    from tasks.served import served_table
    from tasks.verdict import verdict_on

    training = outcome.training
    if not training.retriever:
        return [outcome_table(outcome)]
    verdict = verdict_on(training, outcome.task, outcome.gate)
    served = served_table(training, verdict, counterpart_of(config))
    return [served, outcome_table(outcome)]


def closing_lines(outcome: "Outcome", config: AnyRun) -> list[str]:
    """Lines of a run: first its verdict; doubts, refused rows, registry, commands, report."""
    from tasks.corpus import refused_rows
    from tasks.publish import how_to_register
    from tasks.report import commands_of, doubts_of, notes_of, result_of

    training, gate = outcome.training, outcome.gate
    lines = [result_of(outcome), *doubts_of(training), *notes_of(training, config.training.seed)]
    lines += refused_rows(training.texts.documents)
    if config.register_model:
        lines.append(f"Registry: {gate.text if gate else how_to_register(outcome)}")
    lines += commands_of(outcome, config) if training.retriever else []
    return [*lines, f"Report: {outcome.report}"]


def dry_run_config(config: AnyRun, as_json: bool) -> int:
    """Show what each stage of a run would do: HIT, MISS (why), or after which stage.

    Guessed columns are logged to stderr, as in a run.
    """
    log_to_stderr()
    check(config)
    return show_dry_run(plan_of(config), as_json)


def dry_run_of_demo(configs: list[InfoCSEIDC], as_json: bool) -> int:
    plans = {config.name: plan_of(config) for config in configs}
    if as_json:
        emit({name: [vars(status) for status in plan.statuses] for name, plan in plans.items()})
        return 0
    for name, plan in plans.items():
        show(name)
        show_dry_run(plan, as_json=False)
    return 0


def plan_of(config: AnyRun) -> "DryRun":
    """A dry run of the flow of this run."""
    from tasks.execution import dry_run

    with dry_run(config) as plan:
        walk(config)
    return plan


def run_of(config: AnyRun) -> "Outcome":
    """Run the flow of this kind of run."""
    flow, _ = flow_and_loop(config)
    return flow(config)


def walk(config: AnyRun) -> None:
    """Call the stages of a run in order, outside Prefect."""
    from flows.pipeline import add_mapped_encoders
    from flows.retriever import add_retriever

    def ignore_row(row: "EncoderResult") -> None: ...

    _, loop = flow_and_loop(config)
    add_retriever(add_mapped_encoders(loop(config, ignore_row), config, ignore_row), config)


def flow_and_loop(config: AnyRun) -> "tuple[Callable[[Any], Outcome], Loop]":
    """The flow of this kind of run, and its loop. Importing a flow takes a quarter of a second."""
    match config:
        case InfoCSEPlus():
            from flows.infocse_plus import infocse_plus, self_train_and_fine_tune

            return infocse_plus, self_train_and_fine_tune
        case InfoCSEIDC():
            from flows.infocse_idc import infocse_idc, self_train

            return infocse_idc, self_train
        case FineTuneRun():
            from flows.fine_tune import fine_tune, fine_tune_once

            return fine_tune, fine_tune_once
        case MethodRun():
            from flows.train_method import train_method, train_once

            return train_method, train_once


def check(config: AnyRun) -> None:
    """Refuse a run that cannot work (`check_run`); warn about settings that may surprise."""
    config = with_local_encoders(config)
    check_run(config)
    for warning in (*preset_warnings(config), *label_warnings(config), *id_warnings(config)):
        remark(f"warning {warning}")


def label_warnings(config: AnyRun) -> Iterator[str]:
    """Labels that no training uses, and a counterpart column that labels replace."""
    source, count = config.labels.source, config.labels.count
    column = config.corpus.counterpart_column
    if isinstance(config, InfoCSEPlus):
        if not config.uses_labels:
            zero = "labels.count (--label-count)" if count == 0 else "cycles.max_cycles (--cycles)"
            yield (
                f"{zero} is 0: no training uses labels, but {config.validation.label_share:.0%} of "
                "the counterparts are set aside as labels. Set validation.label_share=0 to "
                "validate with all."
            )
    elif not isinstance(config, FineTuneRun) and not (source is None and count is None):
        unused = f"labels.source {source}" if source else f"labels.count (--label-count) {count:,}"
        yield (
            f"no training uses the labels of {unused}. Use --method fine_tune, or --cycles N "
            "(InfoCSE++)."
        )
    if source and column:
        yield f"validation uses the labels of {source}, not the counterpart column {column!r}."


def id_warnings(config: AnyRun) -> Iterator[str]:
    """Documents without ids whose halves decide a promotion."""
    corpus = config.corpus
    has_ids = corpus.id_column or Path(corpus.source).is_dir()
    if has_ids or corpus.counterpart_column or config.labels.source or not config.register_model:
        return
    yield (
        "no column of ids is named, so row numbers decide which documents are held out. After "
        "rows are added or removed, the gate of a later run uses documents that this encoder was "
        "trained on. Name a column of ids (--id-column)."
    )
