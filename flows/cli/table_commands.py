"""The verb that makes the papers' tables, and what a record of any table goes on with."""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flows.cli.benchmark_commands import benchmark_plan, duel_plan, run_benchmark, run_duel
from flows.cli.plan_table import planned
from flows.cli.running import refusals, running
from flows.cli.settings import checked_as, lasting
from flows.environment import prepare
from sentemb_core.console import emit, remark, show, terminal_table
from sentemb_core.errors import UsageError
from sentemb_core.types import Json

if TYPE_CHECKING:
    from flows.experiments.index import Reproduction
    from flows.method_table import MethodTable
    from tasks.tables.cells import MethodCell


PAPERS = "the papers' experiments (`reproduce list`)"


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

    folder = os.environ.get("SENTEMB_DATA", "")
    if name == FewShotTable.title and not (folder and (Path(folder) / SHIPPED.name).is_file()):
        folder = str(SHIPPED.parent)
    asked.setdefault("data", folder)
    asked |= {name: lasting(asked[name]) for name in ("data", "encoder") if name in asked}
    kinds = {MethodTable.title: MethodTable, FewShotTable.title: FewShotTable}
    kind = kinds.get(name, Reproduction)
    settings = asked if name in kinds else asked | {"experiment": name}
    table = checked_as(kind, {k: v for k, v in settings.items() if k in kind.model_fields})
    foreign = next((option for option in asked if option not in kind.model_fields), None)
    if foreign:
        owners = [title for title, one in kinds.items() if foreign in one.model_fields]
        raise UsageError(
            f"--{foreign.replace('_', '-')} belongs to {' and '.join(owners) or PAPERS}, and "
            f"{name} knows none: leave it out."
        )
    if not table.data:
        raise UsageError("Name the folder of the corpora: --data FOLDER, or set $SENTEMB_DATA.")
    return table


def list_experiments(given: Mapping[str, Any], as_json: bool) -> int:
    """What `reproduce` knows, and what of it the data folder lacks.

    Raises:
        UsageError: an option that a table alone has.
    """
    from flows.experiments.index import ALSO, folder_or_file

    foreign = [name for name, value in given.items() if value is not None and name != "data"]
    if foreign:
        raise UsageError(
            f"--{foreign[0].replace('_', '-')} says how a table is made, and `list` makes none: "
            "leave it out, or name a table."
        )
    folder = given["data"] or os.environ.get("SENTEMB_DATA")
    told = experiments_in(folder)
    if as_json:
        told += [{"id": name, "same_as": other} for name, other in ALSO.items()]
        emit(told)
        return 0
    rows = [
        (
            row["id"],
            row["title"],
            ", ".join({folder_or_file(file, folder): None for file in row["lacks"]}) or "ready",
        )
        for row in told
    ]
    rows += [(name, f"the same as {other}", "") for name, other in ALSO.items()]
    show(terminal_table(("id", "what", "ready, or wants"), rows))
    return 0


def experiments_in(folder: str | None) -> list[Json]:
    """Id, title, files and absent files of every table; shipped ones are there without a folder."""
    from flows.demo import SHIPPED
    from flows.experiments.index import EXPERIMENTS, OURS, Reproduction, files_wanted
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    told: list[Json] = []
    for one in EXPERIMENTS.values():
        files = files_wanted(one, one.small)
        lacks = Reproduction(experiment=one.id, data=folder).absent_files() if folder else files
        told.append({"id": one.id, "title": one.title, "files": files, "lacks": lacks})
    for ours in (MethodTable(data=folder or ""), FewShotTable(data=folder or str(SHIPPED.parent))):
        files = ours.files_wanted()
        lacks = ours.absent_files() if ours.data else files
        told.append({"id": ours.title, "title": OURS[ours.title], "files": files, "lacks": lacks})
    return told


def run_experiment(asked: "Reproduction", as_json: bool, markdown: Path | None = None) -> int:
    """The table beside the paper's, what becomes of the claims, and the files."""
    from flows.experiment import experiment
    from sentemb_core.store.disk import replacing_in
    from sentemb_core.store.objects import Store
    from tasks.experiment_table import write_experiment
    from tasks.results import terminal
    from tasks.tables.markdown import write_between_marks

    with filling(markdown, asked.marks), running():
        told = experiment(asked)
    if markdown:
        write_between_marks(markdown, asked.marks, told.markdown())
    folder = Store.default().root / "reports" / asked.name
    with replacing_in(folder) as draft:
        write_experiment(told, draft)
    if as_json:
        emit(told.json())
    else:
        claims = [terminal(told.claims_table())] if told.claims else []
        page = f"Table and figure: {folder}"
        show(terminal(told.table()), *claims, *told.notes(), page)
    return refusals([*(one.error for one in told.results), *told.unmeasured.values()])


@contextmanager
def filling(file: Path | None, name: str) -> Generator[None, None, None]:
    """The block makes a table for this file, if for any: what the file lacks is told before it.

    A record does not know the file: if the block does not end well, say who writes it then.
    """
    from tasks.tables.markdown import around_marks

    if file:
        around_marks(file, name)
    try:
        yield
    except BaseException:
        if file:
            remark(f"{file} is as it was, and `resume` leaves it so: repeat the whole command.")
        raise


def run_table(
    table: "MethodTable | Reproduction", as_json: bool, markdown: Path | None = None
) -> int:
    table.check_files()
    from flows.experiments.index import Reproduction

    if isinstance(table, Reproduction):
        return run_experiment(table, as_json, markdown)
    from flows.few_shot import FewShotTable, few_shot
    from flows.method_cells import methods_small
    from tasks.tables.cells import cells_json, cells_markdown, cells_table
    from tasks.tables.markdown import write_between_marks

    with filling(markdown, table.marks), running():
        made = few_shot(table) if isinstance(table, FewShotTable) else methods_small(table)
    cells, seen = made.cells, made.seen()
    if markdown:
        write_between_marks(markdown, table.marks, cells_markdown(cells, seen))
    if as_json:
        emit(cells_json(cells))
    else:
        show(cells_table(cells), *seen)
    if isinstance(table, FewShotTable):
        show_curves(cells, table.model_dump(mode="json"))
    return refusals(cell.error for cell in cells)


def show_curves(cells: "list[MethodCell]", settings: Json) -> None:
    """Draw them, in a folder of these settings alone, and say where."""
    from sentemb_core.store.disk import replacing_in
    from sentemb_core.store.objects import Store, canonical
    from tasks.tables.curves import write_curves

    name = f"few-shot-{sha256(canonical(settings)).hexdigest()[:8]}"
    folder = Store.default().root / "reports" / name
    with replacing_in(folder) as draft:
        files = write_curves(cells, settings, draft)
    remark(f"Figures: {', '.join(str(folder / file.name) for file in files)}")


def table_plan(table: "MethodTable | Reproduction", as_json: bool) -> int:
    """What every stage of every cell would do, found by walking the table."""
    table.check_files()
    from flows.experiment import walked
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable, few_shot_cells
    from flows.method_cells import cells
    from flows.method_cells import walked as walked_cells

    match table:
        case Reproduction():
            return planned(partial(walked, table), as_json)
        case FewShotTable():
            return planned(partial(walked_cells, table, few_shot_cells(table)), as_json)
        case _:
            return planned(partial(walked_cells, table, cells(table)), as_json)


class Job(NamedTuple):
    """What a record asks for, each for people or as JSON: do it, or say what it would do."""

    run: Callable[[bool], int]
    plan: Callable[[bool], int]


def table_job(config: Json) -> Job | None:
    """What the settings of a record ask for, if they are a table's."""
    from flows.benchmark_settings import BenchmarkSettings
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    match config:
        case {"experiment": _}:
            return job_of_table(checked_as(Reproduction, config))
        case {"corpora": _}:
            kind = FewShotTable if "counts" in config else MethodTable
            return job_of_table(checked_as(kind, config))
        case {"models": _}:
            suite = checked_as(BenchmarkSettings, config)
            return Job(partial(run_benchmark, suite), partial(benchmark_plan, suite))
        case {"compare": pair}:
            duel = checked_as(BenchmarkSettings, pair)
            return Job(partial(run_duel, duel), partial(duel_plan, duel))
        case _:
            return None


def job_of_table(table: "MethodTable | Reproduction") -> Job:
    return Job(partial(run_table, table), partial(table_plan, table))
