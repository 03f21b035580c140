"""`reproduce`: the papers' tables; and how the record of a table is resumed."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.evaluate import (
    dry_run_benchmark,
    dry_run_compare,
    run_benchmark,
    run_compare,
)
from flows.cli.execute import Job, dry_run_of, exit_code_of, running
from flows.cli.settings import checked_as, full_path
from flows.environment import prepare
from sentemb_core.console import emit, remark, show, terminal_table
from sentemb_core.errors import UsageError
from sentemb_core.types import Json
from tasks.registered_encoders import pinned_name

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
    return dry_run_table(table, as_json) if dry_run else run_table(table, as_json, markdown)


def table_settings(name: str, asked: dict[str, Any]) -> "MethodTable | Reproduction":
    """Settings of methods-small, few-shot, or an experiment by its id."""
    from flows.demo import SHIPPED
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    folder = os.environ.get("SENTEMB_DATA", "")
    if name == FewShotTable.title and not (folder and (Path(folder) / SHIPPED.name).is_file()):
        folder = str(SHIPPED.parent)
    asked.setdefault("data", folder)
    asked |= {
        name: pinned_name(full_path(asked[name])) for name in ("data", "encoder") if name in asked
    }
    kinds = {MethodTable.title: MethodTable, FewShotTable.title: FewShotTable}
    kind = kinds.get(name, Reproduction)
    settings = asked if name in kinds else asked | {"experiment": name}
    table = checked_as(kind, {k: v for k, v in settings.items() if k in kind.model_fields})
    foreign = next((option for option in asked if option not in kind.model_fields), None)
    if foreign:
        owners = [title for title, one in kinds.items() if foreign in one.model_fields]
        raise UsageError(
            f"--{foreign.replace('_', '-')} is an option of {' and '.join(owners) or PAPERS}, not "
            f"of {name}. Leave it out."
        )
    if not table.data:
        raise UsageError("Name the folder of the corpora: --data FOLDER, or set $SENTEMB_DATA.")
    return table


def list_experiments(given: Mapping[str, Any], as_json: bool) -> int:
    """Show every table, and the files that the data folder lacks for it.

    Raises:
        UsageError: an option that `list` does not have.
    """
    from flows.experiments.index import ALSO, folder_or_file

    foreign = [name for name, value in given.items() if value is not None and name != "data"]
    if foreign:
        raise UsageError(
            f"--{foreign[0].replace('_', '-')} is an option of a table, not of `list`. Leave it "
            "out, or name a table."
        )
    folder = given["data"] or os.environ.get("SENTEMB_DATA")
    tables = experiments_in(folder)
    if as_json:
        tables += [{"id": name, "same_as": other} for name, other in ALSO.items()]
        emit(tables)
        return 0
    rows = [
        (
            row["id"],
            row["title"],
            ", ".join({folder_or_file(file, folder): None for file in row["lacks"]}) or "ready",
        )
        for row in tables
    ]
    rows += [(name, f"the same as {other}", "") for name, other in ALSO.items()]
    show(terminal_table(("id", "what", "ready, or missing files"), rows))
    return 0


def experiments_in(folder: str | None) -> list[Json]:
    """Id, title, files and missing files of every table; shipped files need no folder."""
    from flows.demo import SHIPPED
    from flows.experiments.index import EXPERIMENTS, OURS, Reproduction, files_wanted
    from flows.few_shot import FewShotTable
    from flows.method_table import MethodTable

    tables: list[Json] = []
    for one in EXPERIMENTS.values():
        files = files_wanted(one, one.small)
        lacks = Reproduction(experiment=one.id, data=folder).absent_files() if folder else files
        tables.append({"id": one.id, "title": one.title, "files": files, "lacks": lacks})
    for ours in (MethodTable(data=folder or ""), FewShotTable(data=folder or str(SHIPPED.parent))):
        files = ours.files_wanted()
        lacks = ours.absent_files() if ours.data else files
        tables.append({"id": ours.title, "title": OURS[ours.title], "files": files, "lacks": lacks})
    return tables


def run_experiment(asked: "Reproduction", as_json: bool, markdown: Path | None = None) -> int:
    """Run an experiment; show our table beside the paper's, and what holds of its claims."""
    from flows.experiment import experiment
    from sentemb_core.store.disk import replacing_in
    from sentemb_core.store.objects import Store
    from tasks.experiment_table import write_experiment
    from tasks.results import terminal
    from tasks.tables.markdown import write_between_marks

    with filling(markdown, asked.marks), running():
        result = experiment(asked)
    if markdown:
        write_between_marks(markdown, asked.marks, result.markdown())
    folder = Store.default().root / "reports" / asked.name
    with replacing_in(folder) as draft:
        write_experiment(result, draft)
    if as_json:
        emit(result.json())
    else:
        claims = [terminal(result.claims_table())] if result.claims else []
        page = f"Table and figure: {folder}"
        show(terminal(result.table()), *claims, *result.notes(), page)
    return exit_code_of([*(one.error for one in result.results), *result.unmeasured.values()])


@contextmanager
def filling(file: Path | None, name: str) -> Generator[None, None, None]:
    """Check the marks in a Markdown file before the block makes its table.

    A record does not keep the file, so `resume` does not write it: say so after an error.
    """
    from tasks.tables.markdown import around_marks

    if file:
        around_marks(file, name)
    try:
        yield
    except BaseException:
        if file:
            remark(f"{file} is unchanged. `resume` does not write it: repeat the whole command.")
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
    return exit_code_of(cell.error for cell in cells)


def show_curves(cells: "list[MethodCell]", settings: Json) -> None:
    """Draw the curves into a folder of these settings."""
    from sentemb_core.store.disk import replacing_in
    from sentemb_core.store.objects import Store, canonical
    from tasks.tables.curves import write_curves

    name = f"few-shot-{sha256(canonical(settings)).hexdigest()[:8]}"
    folder = Store.default().root / "reports" / name
    with replacing_in(folder) as draft:
        files = write_curves(cells, settings, draft)
    remark(f"Figures: {', '.join(str(folder / file.name) for file in files)}")


def dry_run_table(table: "MethodTable | Reproduction", as_json: bool) -> int:
    """Show what every stage of every cell would do."""
    table.check_files()
    from flows.experiment import walked
    from flows.experiments.index import Reproduction
    from flows.few_shot import FewShotTable, few_shot_cells
    from flows.method_cells import cells
    from flows.method_cells import walked as walked_cells

    match table:
        case Reproduction():
            return dry_run_of(partial(walked, table), as_json)
        case FewShotTable():
            return dry_run_of(partial(walked_cells, table, few_shot_cells(table)), as_json)
        case _:
            return dry_run_of(partial(walked_cells, table, cells(table)), as_json)


def table_job(config: Json) -> Job | None:
    """How to run a record's table; None if it is not a table."""
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
            return Job(partial(run_benchmark, suite), partial(dry_run_benchmark, suite))
        case {"compare": pair}:
            duel = checked_as(BenchmarkSettings, pair)
            return Job(partial(run_compare, duel), partial(dry_run_compare, duel))
        case _:
            return None


def job_of_table(table: "MethodTable | Reproduction") -> Job:
    return Job(partial(run_table, table), partial(dry_run_table, table))
