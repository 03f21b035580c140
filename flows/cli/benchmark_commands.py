"""The verbs that hold models against the evaluation suite: `benchmark` and `compare`."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.plan_table import planned
from flows.cli.running import refusals, running
from flows.cli.settings import checked_as, whole
from flows.cli.store_commands import resolved
from flows.environment import prepare
from sentemb_core.cli_arguments import is_checkpoint
from sentemb_core.console import emit, show
from sentemb_core.errors import UsageError
from tasks.checks import check_corpus, check_model

if TYPE_CHECKING:
    from flows.benchmark_settings import BenchmarkSettings


def benchmark_command(
    given: Mapping[str, Any], corpus: Mapping[str, str], *, dry_run: bool, as_json: bool
) -> int:
    prepare()
    config = from_anywhere(benchmark_settings(given, corpus))
    check_rows(config.models)
    check_models(config.models)
    return benchmark_plan(config, as_json) if dry_run else run_benchmark(config, as_json)


def corpus_named(file: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The corpus that --corpus names, read as its options say; empty without it.

    Raises:
        UsageError: options without a corpus.
    """
    if given and not file:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(
            f"--{option} says how a corpus is read, and none is named: name it with --corpus FILE."
        )
    return {"source": file, **given} if file else {}


def benchmark_settings(given: Mapping[str, Any], corpus: Mapping[str, str]) -> "BenchmarkSettings":
    """What was asked for; its files are looked for before anything runs.

    Only `prepare` keeps the reading of a corpus that a hub's name may be from the network.
    """
    from flows.benchmark_settings import BenchmarkSettings

    if empty := [name for name in ("tasks", "beir") if given[name] == []]:
        raise UsageError(f"--{empty[0]} wants a name or more behind it: add them, or leave it out.")
    asked = {name: value for name, value in given.items() if value is not None}
    asked.setdefault("data", os.environ.get("SENTEMB_DATA"))
    config = checked_as(BenchmarkSettings, asked | ({"corpus": corpus} if corpus else {}))
    config.check_files()
    if config.corpus:
        check_corpus(config.corpus)
    return config


def check_rows(models: Iterable[str]) -> None:
    """A model of a benchmark is none of the rows that stand in its table anyway."""
    from flows.compare import fixed_row

    for model in models:
        if fixed_row(model):
            raise UsageError(
                f"{model} stands in every table of retrieval by itself: name models alone. "
                f"`compare {model} MODEL` says which differences are real; a folder of this name "
                f"is ./{model}."
            )


def check_models(models: Iterable[str]) -> None:
    """Look for them before anything runs, as their encoders will be (`benchmark.encoder_of`)."""
    for model in models:
        if is_checkpoint(model):
            resolved(model)
        if not model.startswith("models:"):
            check_model(model)


def from_anywhere(config: "BenchmarkSettings") -> "BenchmarkSettings":
    """With whole paths to all that it names: its record is gone on with from any folder."""
    from flows.benchmark_settings import BenchmarkSettings
    from flows.compare import fixed_row

    corpus = config.corpus
    paths = {
        "models": tuple(model if fixed_row(model) else whole(model) for model in config.models),
        "beir": tuple(map(whole, config.beir)),
        "data": config.data and whole(config.data),
        "out": config.out and str(Path(config.out).absolute()),  # it may be yet to come
        "corpus": corpus and corpus.model_copy(update={"source": whole(corpus.source)}),
    }
    return checked_as(BenchmarkSettings, dict(config) | paths)


def benchmark_plan(config: "BenchmarkSettings", as_json: bool) -> int:
    """What each stage of a benchmark would do."""
    config.check_files()
    from flows.benchmark import scoreboard
    from tasks.benchmark import placed
    from tasks.tables.scoreboard import not_run

    shown = planned(partial(scoreboard, config, "plan"), as_json)
    if not as_json:
        absent = not_run(placed(task, folder) for task, folder in config.places())
        show(*(f"{task}: {note}" for task, note in absent.items()))
    return shown


def run_benchmark(config: "BenchmarkSettings", as_json: bool) -> int:
    config.check_files()
    if config.out:
        make_folder(config.out)
    from flows.benchmark import benchmark, folder_of
    from tasks.tables.scoreboard_tables import board_json, scoreboard_tables

    with running():
        board = benchmark(config)
    if as_json:
        emit(board_json(board))
    else:
        show(*scoreboard_tables(board), f"Table and figure: {folder_of(config, board.run)}")
    return refusals(score.error for score in board.scores)


def make_folder(out: str) -> None:
    """For a table, before it is made; that of an earlier benchmark may be there.

    Raises:
        UsageError: There cannot be one, or it has files of these names that no benchmark wrote.
    """
    from tasks.tables.evaluations import is_table
    from tasks.tables.scoreboard_tables import FILES

    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"A table and its figure lie in a folder, and {out} cannot be one: {error.strerror}. "
            "Name another by --out."
        ) from error
    there = [name for name in FILES if Path(out, name).exists()]
    if there and not is_table(Path(out, "table.json")):
        raise UsageError(
            f"A table takes the place of an earlier one alone; {out} has {', '.join(there)} of "
            "something else. Name another folder by --out."
        )


def compare_command(given: Mapping[str, Any], corpus: Mapping[str, str], *, as_json: bool) -> int:
    prepare()
    config = from_anywhere(benchmark_settings(given, corpus))
    from flows.compare import comparable, fixed_row

    comparable(config)
    check_models(model for model in config.models if not fixed_row(model))
    return run_duel(config, as_json)


def run_duel(config: "BenchmarkSettings", as_json: bool) -> int:
    config.check_files()
    from flows.compare import compare
    from tasks.tables.duel import duel_json, duel_tables

    with running():
        duel = compare(config)
    if as_json:
        emit(duel_json(duel))
    else:
        show(*duel_tables(duel))
    return refusals(score.error for score in duel.scores)


def duel_plan(config: "BenchmarkSettings", as_json: bool) -> int:
    """What each stage of a comparison would do."""
    config.check_files()
    from flows.compare import duel

    return planned(partial(duel, config), as_json)
