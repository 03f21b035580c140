"""`reproduce`: the papers' tables; and how the record of a table is resumed."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.evaluate import (
    dry_run_benchmark,
    dry_run_compare,
    run_benchmark,
    run_compare,
)
from flows.cli.execute import Job, dry_run_of, exit_code_of, run_flow
from flows.cli.settings import checked_as
from flows.defaults import full_path
from flows.environment import prepare
from sentemb_core.console import emit, print_result, show, terminal_table
from sentemb_core.errors import UsageError
from sentemb_core.types import Json
from tasks.registered_encoders import pinned_name

if TYPE_CHECKING:
    from flows.experiments.settings import Reproduction


def reproduce_command(name: str, given: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> int:
    prepare()
    settings = table_settings(name, {k: v for k, v in given.items() if v is not None})
    return (dry_run_table if dry_run else run_table)(settings, as_json)


def table_settings(name: str, given: dict[str, Any]) -> "Reproduction":
    """Return the settings of an experiment by its id; few-shot reads the shipped corpus."""
    from flows.experiments.methods import FEW_SHOT
    from flows.experiments.parts import SHIPPED
    from flows.experiments.settings import Reproduction

    folder = os.environ.get("SENTEMB_DATA", "")
    if name == FEW_SHOT and not (folder and (Path(folder) / SHIPPED.name).is_file()):
        folder = str(SHIPPED.parent)
    given = {"data": folder} | given | {"experiment": name}
    names = [name for name in ("data", "encoder") if given.get(name)]
    given |= {name: pinned_name(full_path(given[name])) for name in names}
    settings = checked_as(Reproduction, given)
    if not settings.data:
        raise UsageError("Name the folder of the corpora: --data FOLDER, or set $SENTEMB_DATA.")
    return settings


def list_experiments(given: Mapping[str, Any], as_json: bool) -> int:
    """Show every table, and the files that the data folder lacks for it.

    Raises:
        UsageError: an option that `list` does not have.
    """
    from flows.experiments.index import ALIASES, EXPERIMENTS
    from flows.experiments.methods import FEW_SHOT
    from flows.experiments.parts import SHIPPED
    from flows.experiments.settings import Reproduction, files_wanted, folder_or_file

    foreign = [name for name, value in given.items() if value is not None and name != "data"]
    if foreign:
        raise UsageError(
            f"--{foreign[0].replace('_', '-')} is an option of a table, not of `list`. Leave it "
            "out, or name a table."
        )
    folder = given["data"] or os.environ.get("SENTEMB_DATA")
    tables: list[Json] = []
    rows: list[tuple[str, str, str]] = []
    for id, what in EXPERIMENTS.items():
        files = files_wanted(what, what.small)
        # few-shot reads the shipped corpus
        data = folder or (str(SHIPPED.parent) if id == FEW_SHOT else "")
        lacks = Reproduction(experiment=id, data=data).absent_files() if data else files
        tables.append({"id": id, "title": what.title, "files": files, "lacks": lacks})
        missing = dict.fromkeys(folder_or_file(file, folder) for file in lacks)
        rows.append((id, what.title, ", ".join(missing) or "ready"))
    if as_json:
        emit([*tables, *({"id": name, "same_as": other} for name, other in ALIASES.items())])
        return 0
    rows += [(name, f"the same as {other}", "") for name, other in ALIASES.items()]
    show(terminal_table(("id", "what", "ready, or missing files"), rows))
    return 0


def run_table(settings: "Reproduction", as_json: bool) -> int:
    """Run an experiment; show our table beside the paper's, and the verdict on its claims."""
    from flows.reproduce import reproduce
    from sentemb_core.store.disk import replacing_in
    from sentemb_core.store.objects import Store
    from tasks.experiment_table import printed_numbers, write_experiment
    from tasks.results import terminal

    settings.check_files()
    result = run_flow(partial(reproduce, settings))
    folder = Store.default().root / "reports" / settings.name
    with replacing_in(folder) as draft:
        write_experiment(result, draft)
    tables = [result.table(), *([result.claims_table()] if result.claims else [])]
    texts = [
        *map(terminal, tables),
        *map(printed_numbers, result.paper.tables),
        *result.notes(),
        f"Table and figure: {folder}",
    ]
    print_result(result.json(), *texts, as_json=as_json)
    return exit_code_of([*(one.error for one in result.results), *result.unmeasured.values()])


def dry_run_table(settings: "Reproduction", as_json: bool) -> int:
    """Show what every stage of every cell would do."""
    from flows.reproduce import plan_reproduction

    settings.check_files()
    return dry_run_of(partial(plan_reproduction, settings), as_json)


def table_job(config: Json) -> Job | None:
    """How to run a record's table; None if it is not a table."""
    from flows.benchmark_settings import BenchmarkSettings
    from flows.experiments.settings import Reproduction

    match config:
        case {"experiment": _}:
            settings = checked_as(Reproduction, config)
            return Job(partial(run_table, settings), partial(dry_run_table, settings))
        case {"models": _}:
            suite = checked_as(BenchmarkSettings, config)
            return Job(partial(run_benchmark, suite), partial(dry_run_benchmark, suite))
        case {"compare": pair}:
            duel = checked_as(BenchmarkSettings, pair)
            return Job(partial(run_compare, duel), partial(dry_run_compare, duel))
        case _:
            return None
