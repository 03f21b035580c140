"""`benchmark` and `compare`: models on the evaluation suite."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.benchmark_settings import BenchmarkSettings, fixed_row
from flows.cli.execute import dry_run_of, exit_code_of, run_flow
from flows.cli.settings import checked_as
from flows.defaults import full_path
from flows.environment import prepare
from sentemb_core.console import print_result, show
from sentemb_core.errors import UsageError
from tasks.checks import check_corpus, check_model
from tasks.registered_encoders import find_encoder, is_saved_encoder
from tasks.retriever_systems import retriever_in

if TYPE_CHECKING:
    from tasks.benchmark_rows import Scoreboard


def benchmark_command(
    given: Mapping[str, Any], corpus: Mapping[str, str | bool], *, dry_run: bool, as_json: bool
) -> int:
    prepare()
    config = with_full_paths(benchmark_settings(given, corpus))
    for model in config.models:
        if fixed_row(model):
            raise UsageError(
                f"{model} is a baseline in every retrieval table, so name only models. To compare "
                f"it with a model: `compare {model} MODEL`. For a folder of this name: ./{model}."
            )
    check_models(config.models)
    return dry_run_benchmark(config, as_json) if dry_run else run_benchmark(config, as_json)


def corpus_settings(file: str | None, given: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Settings of the corpus that --corpus names; empty without it.

    Raises:
        UsageError: there are corpus options, but no --corpus.
    """
    if given and not file:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(
            f"--{option} needs a corpus. Name it with --corpus FILE, or leave the option out."
        )
    return {"source": file, **given} if file else {}


def benchmark_settings(
    given: Mapping[str, Any], corpus: Mapping[str, str | bool]
) -> BenchmarkSettings:
    """Checked settings; the files of the tasks and of the corpus are there.

    Call `prepare` first: it keeps the data set libraries offline.
    """
    if empty := [name for name in ("tasks", "beir") if given[name] == []]:
        raise UsageError(f"--{empty[0]} needs at least one name. Add it, or leave the option out.")
    values = {name: value for name, value in given.items() if value is not None}
    values.setdefault("data", os.environ.get("SENTEMB_DATA"))
    config = checked_as(BenchmarkSettings, values | ({"corpus": corpus} if corpus else {}))
    config.check_files()
    if config.corpus:
        check_corpus(config.corpus)
    return config


def check_models(models: Iterable[str]) -> None:
    """Check that all models exist, as `benchmark.system_of` finds them."""
    for model in models:
        if is_saved_encoder(model) and retriever_in(find_encoder(model)):
            continue
        if not model.startswith("models:"):
            check_model(model)


def with_full_paths(config: BenchmarkSettings) -> BenchmarkSettings:
    """Replace all paths by absolute paths, so that `resume` works in any folder."""
    corpus = config.corpus
    paths = {
        "models": tuple(model if fixed_row(model) else full_path(model) for model in config.models),
        "beir": tuple(map(full_path, config.beir)),
        "data": config.data and full_path(config.data),
        "out": config.out and str(Path(config.out).absolute()),  # it may not exist yet
        "corpus": corpus and corpus.model_copy(update={"source": full_path(corpus.source)}),
    }
    return checked_as(BenchmarkSettings, dict(config) | paths)


def dry_run_benchmark(config: BenchmarkSettings, as_json: bool) -> int:
    """Show what each stage of a benchmark would do."""
    config.check_files()
    from flows.benchmark import scoreboard
    from tasks.benchmark import placed
    from tasks.benchmark_rows import not_run

    code = dry_run_of(partial(scoreboard, config, "plan"), as_json)
    if not as_json:
        absent = not_run(placed(task, folder) for task, folder in config.places())
        show(*(f"{task}: {note}" for task, note in absent.items()))
    return code


def run_benchmark(config: BenchmarkSettings, as_json: bool) -> int:
    config.check_files()
    if config.out:
        make_folder(config.out)
    from flows.benchmark import benchmark, folder_of

    board = run_flow(partial(benchmark, config))
    return show_board(board, as_json, f"Table and figure: {folder_of(config, board.run)}")


def show_board(board: "Scoreboard", as_json: bool, *texts: str) -> int:
    """Print the board, then the texts; return 3 if a part of it failed."""
    from tasks.benchmark_table import board_json, board_terminal

    print_result(board_json(board), *board_terminal(board), *texts, as_json=as_json)
    return exit_code_of(score.error for score in board.scores)


def make_folder(out: str) -> None:
    """Make the output folder of a table. It may hold the table of an earlier benchmark.

    Raises:
        UsageError: the folder cannot be made, or holds files of these names from another program.
    """
    from tasks.benchmark_table import FILES
    from tasks.evaluations import is_table

    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"Cannot make the folder {out}: {error.strerror}. Name another one (--out)."
        ) from error
    existing = [name for name in FILES if Path(out, name).exists()]
    if existing and not is_table(Path(out, "table.json")):
        raise UsageError(
            f"{out} holds {', '.join(existing)} of another program. Only an earlier table is "
            "overwritten: name another folder (--out)."
        )


def compare_command(
    given: Mapping[str, Any], corpus: Mapping[str, str | bool], *, as_json: bool
) -> int:
    prepare()
    config = with_full_paths(benchmark_settings(given, corpus))
    from flows.benchmark import comparable

    comparable(config)
    check_models(model for model in config.models if not fixed_row(model))
    return run_compare(config, as_json)


def run_compare(config: BenchmarkSettings, as_json: bool) -> int:
    config.check_files()
    from flows.benchmark import compare

    board = run_flow(partial(compare, config))
    return show_board(board, as_json)


def dry_run_compare(config: BenchmarkSettings, as_json: bool) -> int:
    """Show what each stage of a comparison would do."""
    config.check_files()
    from flows.benchmark import comparison

    return dry_run_of(partial(comparison, config, "plan"), as_json)
