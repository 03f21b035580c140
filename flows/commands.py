"""The verbs of `python -m flows` with their heavy imports: each prints a result."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.environment import log_file, prepare
from flows.logs import logged
from flows.settings import AnyRun, by_path, checked, checked_as, settings
from sentemb_core.configs import FineTuneRun, InfoCSEIDC, InfoCSEPlus, MethodRun
from sentemb_core.console import emit, remark, show
from sentemb_core.errors import BadDataError, GateRefusedError, UsageError
from sentemb_core.types import ArtifactRef, Json
from tasks.sources import check_corpus, check_sources

if TYPE_CHECKING:
    from flows.benchmark_settings import Benchmark
    from flows.experiments.index import Reproduction
    from flows.method_table import MethodTable
    from sentemb_core.store.runs import Run, State
    from tasks.caching import Plan
    from tasks.cells import Cell
    from tasks.publish import Outcome


def demo_command(only: str | None, as_json: bool) -> int:
    prepare()
    from flows.demo import WAYS, demo, demo_table

    with logged(log_file()):
        outcomes = demo([only] if only else list(WAYS))
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


def run_config(config: AnyRun, as_json: bool) -> int:
    check_sources(config)
    from tasks.publish import verdict_of
    from tasks.tables import outcome_table

    with logged(log_file()):
        outcome = run_of(config)
    if as_json:
        emit(outcome.model_dump(mode="json"))
    else:
        show(outcome_table(outcome), verdict_of(outcome), f"Report: {outcome.report}")
    return 0


def reproduce_command(
    name: str, given: Mapping[str, Any], markdown: Path | None, *, dry_run: bool, as_json: bool
) -> int:
    asked = {name: value for name, value in given.items() if value is not None}
    table = table_settings(name, asked)
    prepare()
    return table_plan(table, as_json) if dry_run else run_table(table, as_json, markdown)


def table_settings(name: str, asked: dict[str, Any]) -> "MethodTable | Reproduction":
    """A table of methods, few-shot curves, or an experiment by its id."""
    from flows.demo import SHIPPED
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    shipped = str(SHIPPED.parent) if name == FewShotTable.title else None
    if not asked.setdefault("data", os.environ.get("SENTEMB_DATA", shipped)):
        raise UsageError("Name the folder of the corpora: --data FOLDER, or set $SENTEMB_DATA.")
    kinds = {MethodTable.title: MethodTable, FewShotTable.title: FewShotTable}
    if name in kinds:
        return checked_as(kinds[name], asked)
    return checked_as(Reproduction, asked | {"experiment": name})


def list_experiments(data: str | None, as_json: bool) -> int:
    """What `reproduce` knows, and what of it the data folder lacks."""
    from flows.experiments.index import EXPERIMENTS, NOT_SERVED, Reproduction, files_wanted

    folder = data or os.environ.get("SENTEMB_DATA")
    told: list[Json] = []
    for one in EXPERIMENTS.values():
        files = files_wanted(one)
        lacks = Reproduction(experiment=one.id, data=folder).absent_files() if folder else files
        told.append({"id": one.id, "title": one.title, "files": files, "lacks": lacks})
    if as_json:
        emit(told)
        return 0
    from rich.table import Table

    table = Table("id", "what", "wants" if not folder else "ready, or wants", box=None)
    for row in told:
        table.add_row(row["id"], row["title"], ", ".join(row["lacks"]) or "ready")
    for name, reason in NOT_SERVED.items():
        table.add_row(name, f"not served: {reason}", "")
    show(table)
    return 0


def run_experiment(asked: "Reproduction", as_json: bool, markdown: Path | None = None) -> int:
    """The table beside the paper's, what becomes of the claims, and the files."""
    from flows.experiment import experiment
    from sentemb_core.store.objects import Store
    from tasks.caching import without_prefect
    from tasks.cells import around_marks, write_between_marks
    from tasks.findings_table import Told

    if markdown:
        around_marks(markdown, asked.experiment)
    with logged(log_file()):
        found = experiment(asked)
    with without_prefect(Store.default()):
        told = Told(asked.what, asked.budget, found, asked.model_dump(mode="json"))
    if markdown:
        write_between_marks(markdown, asked.experiment, told.markdown())
    folder = told.write(Store.default().root / "reports" / asked.experiment)
    if as_json:
        emit(told.json())
    else:
        show(told.table(), *told.verdicts(), *told.notes(), f"Table and figure: {folder}")
    return refusals(one.error for one in told.findings)


def run_table(
    table: "MethodTable | Reproduction", as_json: bool, markdown: Path | None = None
) -> int:
    table.check_files()
    from flows.experiments.index import Reproduction

    if isinstance(table, Reproduction):
        return run_experiment(table, as_json, markdown)
    from flows.few_shot import FewShotTable, few_shot
    from flows.reproduce import methods_small
    from tasks.cells import (
        around_marks,
        cells_json,
        cells_markdown,
        cells_table,
        write_between_marks,
    )

    if markdown:
        around_marks(markdown, table.title)  # told before the work rather than after it
    with logged(log_file()):
        cells = few_shot(table) if isinstance(table, FewShotTable) else methods_small(table)
    if markdown:
        write_between_marks(markdown, table.title, cells_markdown(cells))
    if as_json:
        emit(cells_json(cells))
    else:
        show(cells_table(cells))
    if isinstance(table, FewShotTable):
        show_curves(cells)
    return refusals(cell.error for cell in cells)


def show_curves(cells: "list[Cell]") -> None:
    """Draw them, and say where."""
    from sentemb_core.store.objects import Store
    from tasks.curves import write_curves

    files = write_curves(cells, Store.default().root / "reports" / "few-shot")
    remark(f"Figures: {', '.join(map(str, files))}")


def benchmark_command(
    given: Mapping[str, Any], corpus: Mapping[str, str], *, dry_run: bool, as_json: bool
) -> int:
    config = benchmark_settings(given, corpus)
    prepare()
    return benchmark_plan(config, as_json) if dry_run else run_benchmark(config, as_json)


def benchmark_settings(given: Mapping[str, Any], corpus: Mapping[str, str]) -> "Benchmark":
    """What was asked for; its files and its folders are looked for before anything runs."""
    from flows.benchmark_settings import Benchmark

    asked = {name: value for name, value in given.items() if value is not None}
    asked.setdefault("data", os.environ.get("SENTEMB_DATA"))
    config = checked_as(Benchmark, asked | ({"corpus": corpus} if corpus else {}))
    config.check_files()
    if config.corpus:
        check_corpus(config.corpus)
    for model in config.models:
        if Path(model).is_absolute() or model.startswith(("models:", ".")):
            resolved(model)
    return config


def run_benchmark(config: "Benchmark", as_json: bool) -> int:
    config.check_files()
    from flows.benchmark import benchmark, folder_of
    from tasks.scoreboard_tables import board_json, scoreboard_tables

    with logged(log_file()):
        board = benchmark(config)
    if as_json:
        emit(board_json(board))
    else:
        show(*scoreboard_tables(board), f"Table and figure: {folder_of(config, board.run)}")
    return refusals(score.error for score in board.scores)


def refusals(errors: Iterable[str]) -> int:
    """Bad data (3) where a model was refused on a task: the rest of the table stands."""
    return BadDataError.exit_code if any(errors) else 0


def benchmark_plan(config: "Benchmark", as_json: bool) -> int:
    """What each stage of a benchmark would do."""
    config.check_files()
    from flows.benchmark import scoreboard
    from sentemb_core.store.objects import Store
    from tasks.caching import making_plan

    with making_plan(Store.default()) as plan:
        scoreboard(config, "plan")
    return show_told(plan, as_json)


def compare_command(given: Mapping[str, Any], as_json: bool) -> int:
    config = benchmark_settings(given, {})
    prepare()
    from flows.benchmark import compare
    from tasks.duel import duel_json, duel_tables

    with logged(log_file()):
        duel = compare(config)
    if as_json:
        emit(duel_json(duel))
    else:
        show(*duel_tables(duel))
    return refusals(score.error for score in duel.scores)


def show_plan(config: AnyRun, as_json: bool) -> int:
    """HIT, MISS (why) or 'after STAGE', by walking the flow itself."""
    check_sources(config)
    from sentemb_core.store.objects import Store
    from tasks.caching import making_plan

    with making_plan(Store.default()) as plan:
        walk(config)
    return show_told(plan, as_json)


def run_of(config: AnyRun) -> "Outcome":
    """The flow of this kind of run."""
    from flows.fine_tune import fine_tune
    from flows.infocse_idc import infocse_idc
    from flows.infocse_plus import infocse_plus
    from flows.train_method import train_method

    match config:
        case InfoCSEPlus():
            return infocse_plus(config)
        case InfoCSEIDC():
            return infocse_idc(config)
        case FineTuneRun():
            return fine_tune(config)
        case MethodRun():
            return train_method(config)


def walk(config: AnyRun) -> None:
    """The same without Prefect, for a plan. A flow takes a quarter of a second to import."""
    match config:
        case InfoCSEPlus():
            from flows.infocse_plus import self_train_and_fine_tune

            self_train_and_fine_tune(config, lambda row: None)
        case InfoCSEIDC():
            from flows.infocse_idc import self_train

            self_train(config, lambda row: None)
        case FineTuneRun():
            from flows.fine_tune import fine_tuned_once

            fine_tuned_once(config, lambda row: None)
        case MethodRun():
            from flows.train_method import trained_once

            trained_once(config, lambda row: None)


def table_plan(table: "MethodTable | Reproduction", as_json: bool) -> int:
    """The same for every cell of a table."""
    table.check_files()
    from flows.experiment import arms_found
    from flows.experiments.index import Reproduction
    from flows.experiments.learning import base_of
    from flows.few_shot import FewShotTable, few_shot_cells
    from flows.reproduce import cells
    from sentemb_core.store.objects import Store
    from tasks.caching import making_plan

    with making_plan(Store.default()) as plan:
        match table:
            case Reproduction():
                list(arms_found(table, base_of(table)))
            case FewShotTable():
                list(few_shot_cells(table))
            case _:
                list(cells(table))
    return show_told(plan, as_json)


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
        show("What follows depends on scores that are not known yet.")
    return 0


def resume_command(run: str | None, as_json: bool) -> int:
    prepare()
    found = unfinished_run(run)
    if run is None:
        remark(f"Going on with run {found.id} ({found.state}), the last that did not finish.")
    from tasks.following import resuming

    with resuming(found.id):
        if table := table_of(found.config):
            return run_table(table, as_json)
        if suite := benchmark_of(found.config):
            return run_benchmark(suite, as_json)
        return run_config(checked(found.config), as_json)


def unfinished_run(run: str | None) -> "Run":
    """The named run, else the last that failed or was killed."""
    found = found_run(run, "failed", "killed")
    match found.state:
        case "completed":
            raise UsageError(
                f"Run {found.id} is finished, there is nothing to go on with: `python -m flows "
                f"status {found.id}` says whether anything would run again."
            )
        case "running":
            raise UsageError(
                f"Run {found.id} is running in another process, which has to end first."
            )
        case _:
            return found


def status_command(run: str | None, as_json: bool) -> int:
    prepare()
    found = found_run(run)
    config = found.config
    if not as_json:
        name = f" of {config['name']!r}" if "name" in config else ""
        show(f"Run {found.id}{name}{'' if run else ', the last'}: {found.state}.")
    if table := table_of(config):
        return table_plan(table, as_json)
    if suite := benchmark_of(config):
        return benchmark_plan(suite, as_json)
    return show_plan(checked(config), as_json)


def table_of(config: Json) -> "MethodTable | Reproduction | None":
    """The settings of a record, if it is one of a table."""
    if not {"corpora", "experiment"} & set(config):
        return None
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    if "experiment" in config:
        return checked_as(Reproduction, config)
    return checked_as(FewShotTable if "counts" in config else MethodTable, config)


def benchmark_of(config: Json) -> "Benchmark | None":
    """The settings of a record, if it is one of a benchmark."""
    from flows.benchmark_settings import Benchmark

    return checked_as(Benchmark, config) if "models" in config else None


def found_run(run: str | None, *states: "State", made: str = "") -> "Run":
    """The named run, else the last one (of those in these states, which made such an artifact)."""
    from sentemb_core.store.objects import Store
    from sentemb_core.store.runs import last_runs

    known = last_runs(Store.default())
    wanted = [
        one
        for one in known
        if (one.id == run if run else not states or one.state in states)
        and (run or not made or made in {ref.kind for ref in one.outputs})
    ]
    if not wanted:
        names = ", ".join(f"{one.id} ({one.state})" for one in known[:5]) or "none"
        asked = repr(run) if run else f"that is {' or '.join(states) or 'recorded'}"
        raise UsageError(f"There is no run {asked} in {Store.default().root}. The last: {names}.")
    return wanted[0]


def outcome_of(run: str | None) -> "tuple[Run, Outcome]":
    """A finished run (the last one if none is named) and its outcome."""
    from sentemb_core.store.objects import Store
    from tasks.publish import read_outcome

    found = found_run(run, "completed", made="outcome")
    if {"corpora", "models", "experiment"} & found.config.keys():
        raise UsageError(f"Run {found.id} is a table, which returns no encoder: name another run.")
    refs = [ref for ref in found.outputs if ref.kind == "outcome"]
    if not refs:
        raise UsageError(
            f"Run {found.id} has no outcome yet (it is {found.state}): "
            f"`python -m flows resume {found.id}` finishes it."
        )
    return found, read_outcome(Store.default().path(refs[0]))


def lineage_command(model: str, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.lineage import lineage
    from sentemb_core.store.objects import Store

    found = lineage(Store.default(), artifact_of(model))
    if as_json:
        emit(found.model_dump(mode="json"))
    else:
        show(found.tree())
    return 0


def artifact_of(model: str) -> ArtifactRef:
    """From a registered model, a run's id, or the beginning of a digest."""
    from sentemb_core.store.objects import Store

    if model.startswith("models:/"):
        from tasks.registry import artifact_of_version

        return artifact_of_version(model)
    if any(character not in "0123456789abcdef" for character in model):
        return outcome_of(model)[1].encoder
    return Store.default().find(model)


def report_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.publish import write_report_of

    found, outcome = outcome_of(run)
    page = write_report_of(outcome, checked(found.config))
    if as_json:
        emit({"run": found.id, "report": str(page)})
    else:
        show(f"Report: {page}")
    return 0


def register_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.gating import registered

    found, outcome = outcome_of(run)
    version = registered(checked(found.config), outcome.training, outcome.encoder)
    if as_json:
        emit({"uri": version.uri, "name": version.name, "version": version.version})
    else:
        show(f"Registered: {version.uri}")
    return 0


def promote_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.gating import landed

    found, outcome = outcome_of(run)
    landing = landed(checked(found.config), outcome.training, outcome.encoder)
    if as_json:
        emit(landing.model_dump(mode="json"))
    elif landing.alias == "champion":
        show(f"{landing.uri} is the champion. {landing.reason}")
    if landing.alias != "champion":
        raise GateRefusedError(f"{landing.uri} is a challenger. {landing.reason}")
    return 0


def canary_command(index: Path, model: str, as_json: bool) -> int:
    prepare()
    from sentemb_core.cli import tell_match
    from tasks.registry import check_comparable, compare_with, find_version

    check_comparable(index)
    version = find_version(model).uri  # an alias may have moved by the time that this is read
    return tell_match(compare_with(version, index), index, version, json=as_json)


def resolved(model: str) -> Path:
    """The folder of a registered model (verified), or the folder itself."""
    prepare()
    from tasks.registry import resolve

    return resolve(model)


def serve_command(port: int, seconds: float | None, mlflow: bool) -> int:
    """The roof stands on the flows, so it is started as a program of its own."""
    prepare()
    command = [sys.executable, "-m", "deployments", "--port", str(port)]
    command += ["--for", str(seconds)] if seconds is not None else []
    os.execv(sys.executable, [*command, *(["--mlflow"] if mlflow else [])])


def doctor_command(as_json: bool) -> int:
    folder = prepare()
    from tasks.doctor import findings

    told = findings(folder)
    if as_json:
        emit([finding.__dict__ for finding in told])
    else:
        from rich.table import Table

        table = Table("", "what", "found", box=None)
        for finding in told:
            table.add_row("ok" if finding.ok else "BAD", finding.what, finding.found)
        show(table)
    return 0 if all(finding.ok for finding in told) else 5


def gc_command(keep_runs: int, dry_run: bool, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.gc import collect
    from sentemb_core.store.objects import Store
    from tasks.registry import registered_artifacts

    garbage = collect(Store.default(), registered_artifacts(), keep_runs, dry_run=dry_run)
    if as_json:
        emit(garbage.model_dump(mode="json"))
    else:
        what = ", ".join(f"{n} {kind}" for kind, n in garbage.counts.items() if n) or "nothing"
        show(
            f"{'Would remove' if dry_run else 'Removed'} {what}: {garbage.bytes / 1e6:,.1f} MB; "
            f"{garbage.kept_objects} artifacts stay."
        )
    return 0


def fsck_command(as_json: bool) -> int:
    prepare()
    from sentemb_core.store.fsck import fsck
    from sentemb_core.store.objects import Store

    found = fsck(Store.default())
    if as_json:
        emit(found.model_dump(mode="json"))
    else:
        lines = [f"{found.ok:,} artifacts are whole ({found.bytes / 1e6:,.1f} MB)."]
        lines += [f"corrupt, now in quarantine: {line}" for line in found.corrupt]
        lines += [f"missing: {ref}" for ref in found.missing]
        lines += [f"stray: {path}" for path in found.stray]
        show("\n".join(lines))
    return 0 if found.healthy else 5
