"""The verbs that run a pipeline, go on with one, and say what one would do."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.plan_table import goes_on, show_told
from flows.cli.records import (
    found_run,
    require_its_documents,
    unfinished_run,
    waiting_runs,
)
from flows.cli.running import running
from flows.cli.settings import AnyRun, by_path, checked, settings
from flows.cli.table_commands import Job, table_job
from flows.environment import prepare
from flows.presets import high_learning_rate_warnings, slow_products, slow_trainings
from sentemb_core.cli_arguments import is_folder
from sentemb_core.config.run import FineTuneRun, InfoCSEIDC, InfoCSEPlus, MethodRun
from sentemb_core.console import emit, log_to_stderr, remark, show
from sentemb_core.formats import counted
from tasks.checks import check_run
from tasks.registered_encoders import located

if TYPE_CHECKING:
    from flows.demo import Way
    from flows.pipeline import OnRow
    from sentemb_core.store.runs import Run
    from tasks.execution import DryRun
    from tasks.publish import Outcome
    from tasks.run_result import EncoderResult, RunResult

    Loop = Callable[[Any, OnRow], RunResult]


WAITING = 5
"""Runs that wait and are told of."""


def demo_command(only: "Way | None", *, dry_run: bool, as_json: bool) -> int:
    prepare()
    from flows.demo import WAYS, demo, demo_table

    ways: list[Way] = [only] if only else list(WAYS)
    if dry_run:
        return show_plans([WAYS[way] for way in ways], as_json)
    with running():
        outcomes = demo(ways)
    if as_json:
        emit({way: outcome.model_dump(mode="json") for way, outcome in outcomes.items()})
    else:
        show(demo_table(outcomes))
        for way, outcome in outcomes.items():
            show(f"Report of {WAYS[way].name}: {outcome.report}")
    return 0


def train_command(
    file: Path | None,
    source: str | None,
    columns: Mapping[str, str],
    options: Mapping[str, Any],
    overrides: list[str],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    corpus = {f"corpus.{name}": value for name, value in columns.items()}
    given = {"corpus.source": source} | corpus | by_path(options)
    config = settings(file, given, overrides)
    prepare()
    return show_plan(config, as_json) if dry_run else run_config(config, as_json)


def labels_unlearnt(config: AnyRun) -> list[str]:
    """A warning where labels were named or counted, and no training reads them."""
    source, count = config.labels.source, config.labels.count
    if isinstance(config, InfoCSEPlus) and not config.uses_labels:
        zero = "labels.count (--label-count)" if count == 0 else "cycles.max_cycles (--cycles)"
        kept = f"{config.validation.label_share:.0%} of the counterparts, which cycles would learn"
        return [
            f"{zero} is 0: this is self-training alone, and nothing learns from labels. "
            f"{kept} from, are still not looked for: set validation.label_share=0 to judge by all."
        ]
    if isinstance(config, InfoCSEPlus | FineTuneRun) or (source is None and count is None):
        return []
    found = (
        f"the labels of {source} are what validation looks for, and nothing learns from them"
        if source
        else f"nothing learns from labels, of which labels.count (--label-count) says {count:,}"
    )
    return [f"{found}: take --method fine_tune, or --cycles N (InfoCSE++)."]


def column_unasked(config: AnyRun) -> list[str]:
    """A warning where a file of labels judges, and a column of counterparts is named, too."""
    source, column = config.labels.source, config.corpus.counterpart_column
    if not (source and column):
        return []
    return [f"the labels of {source} judge: the texts of column {column!r} are not looked for."]


def called_by_rows(config: AnyRun) -> list[str]:
    """A warning where halves of documents judge which encoder serves, and nobody names these."""
    corpus = config.corpus
    judged = corpus.counterpart_column or config.labels.source or is_folder(corpus.source)
    if corpus.id_column or judged or not config.register_model:
        return []
    return [
        "the documents have no ids and are called by their rows, by which they are held out. Where "
        "rows are put in or taken out, the gate of a later run asks documents that this run's "
        "encoder has learnt, and prefers it: name a column of ids (--id-column)."
    ]


def examined(config: AnyRun) -> None:
    """Refuse what cannot work (`check_run`); say what will work otherwise than it may look."""
    config = located(config)
    check_run(config)
    kinds = (
        slow_trainings,
        high_learning_rate_warnings,
        slow_products,
        labels_unlearnt,
        column_unasked,
        called_by_rows,
    )
    for warning in chain.from_iterable(told(config) for told in kinds):
        remark(f"warning {warning}")


def run_config(config: AnyRun, as_json: bool, *, resumed: "Run | None" = None) -> int:
    examined(config)
    if resumed:
        require_its_documents(resumed, config)
        remark(goes_on(plan_of(config)))
    elif config.register_model:
        remark(f"The encoder will be registered as models:/{config.name} (--name: another name).")
    with running():
        outcome = run_of(config)
    from tasks.tables.run_table import outcome_table

    if as_json:
        emit(outcome.model_dump(mode="json"))
    else:
        show(outcome_table(outcome), *closing_words(outcome, config.training.seed))
    return 0


def closing_words(outcome: "Outcome", seed: int) -> list[str]:
    """Under the table of a run: what was gained, what was refused, where the encoder and all is."""
    from tasks.corpus import refused_rows
    from tasks.verdict import doubts_of, gain_of, notes_of

    training, landing = outcome.training, outcome.landing
    told = [gain_of(training), *doubts_of(training), *notes_of(training, seed)]
    told += refused_rows(training.texts.documents)
    told += [f"Registry: {landing.told}"] if landing else []
    return [*told, f"Report: {outcome.report}"]


def show_plans(configs: list[InfoCSEIDC], as_json: bool) -> int:
    """`show_plan` of several runs, each under its name."""
    plans = {config.name: plan_of(config) for config in configs}
    if as_json:
        emit({name: [vars(told) for told in plan.told] for name, plan in plans.items()})
        return 0
    for name, plan in plans.items():
        show(name)
        show_told(plan, as_json=False)
    return 0


def show_plan(config: AnyRun, as_json: bool) -> int:
    """HIT, MISS (why) or 'after STAGE', by walking the flow itself.

    What is guessed of the source (columns, ids) is told on stderr, as a run tells it in its log.
    """
    log_to_stderr()
    examined(config)
    return show_told(plan_of(config), as_json)


def plan_of(config: AnyRun) -> "DryRun":
    """What every stage of a run would do, found by walking its flow."""
    from sentemb_core.store.objects import Store
    from tasks.execution import making_plan

    with making_plan(Store.default(), config) as plan:
        walk(config)
    return plan


def run_of(config: AnyRun) -> "Outcome":
    """The outcome of the flow of this kind of run."""
    flow, _ = flow_and_loop(config)
    return flow(config)


def walk(config: AnyRun) -> None:
    """`run_of` without Prefect, for a plan."""
    from flows.pipeline import run_with_maps

    def watch(row: "EncoderResult") -> None:
        """Nobody looks at the rows of a plan."""

    _, loop = flow_and_loop(config)
    run_with_maps(loop(config, watch), config, watch)


def flow_and_loop(config: AnyRun) -> "tuple[Callable[[Any], Outcome], Loop]":
    """Of this kind of run. A flow takes a quarter of a second to import."""
    match config:
        case InfoCSEPlus():
            from flows.infocse_plus import infocse_plus, self_train_and_fine_tune

            return infocse_plus, self_train_and_fine_tune
        case InfoCSEIDC():
            from flows.infocse_idc import infocse_idc, self_train

            return infocse_idc, self_train
        case FineTuneRun():
            from flows.fine_tune import fine_tune, fine_tuned_once

            return fine_tune, fine_tuned_once
        case MethodRun():
            from flows.train_method import train_method, trained_once

            return train_method, trained_once


def resume_command(run: str | None, as_json: bool) -> int:
    prepare()
    found = unfinished_run(run)
    if run is None:
        why = f"{found.state}: {found.error}" if found.error else found.state
        remark(f"Going on with run {found.id}, which did not finish ({why}).")
        others = [f"{one.id} ({one.state})" for one in waiting_runs() if one != found]
        more = f" and {len(others) - WAITING:,} more" if len(others) > WAITING else ""
        if others:
            remark(f"Others wait, for `resume ID`: {', '.join(others[:WAITING])}{more}.")
    from tasks.run_monitor import resuming

    with resuming(found.id):
        return job_of(found).run(as_json)


def job_of(found: "Run") -> Job:
    """What a record asks for: a table, or a run."""
    if job := table_job(found.config):
        return job
    run = checked(found.config)
    return Job(partial(run_config, run, resumed=found), partial(show_plan, run))


def state_of(run: "Run") -> str:
    """The state of a run, and how to go on with one that came to no end."""
    if run.state not in ("failed", "killed"):
        return f"{run.state}."
    why = f": {run.error}" if run.error else ""
    return f"{run.state}{why}\n`python -m flows resume {run.id}` goes on with it."


def status_command(run: str | None, as_json: bool) -> int:
    prepare()
    found = found_run(run)
    config = found.config
    if not as_json:
        name = f" of {config['name']!r}" if "name" in config else ""
        show(f"Run {found.id}{name}{'' if run else ', the last'}: {state_of(found)}")
        waiting = [] if run else [one for one in waiting_runs() if one != found]
        for one in waiting[:WAITING]:
            show(f"Run {one.id} waits: {state_of(one)}")
        if len(waiting) > WAITING:
            show(f"{counted(len(waiting) - WAITING, 'other run')} did not finish either.")
    return job_of(found).plan(as_json)
