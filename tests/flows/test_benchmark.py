"""The suite's flows: rows of models and baselines, files, refusals, and paired comparisons."""

import csv
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpx import ConnectError

from flows import benchmark
from flows.__main__ import app
from flows.benchmark import compare, comparison, scoreboard, system_of
from flows.benchmark_settings import BenchmarkSettings, labelled
from flows.cli.evaluate import (
    benchmark_settings,
    check_models,
    run_benchmark,
    run_compare,
    with_full_paths,
)
from flows.cli.execute import exit_code_of
from flows.cli.reproduce import table_job
from flows.cli.settings import checked_as
from flows.scoring import result_on
from sentemb_core import console
from sentemb_core.config.run import CorpusConfig
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import (
    EmptyPairsError,
    MissingEncoderError,
    StorageError,
    UnreadableSourceError,
    UsageError,
)
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.comparison import Comparison
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, recording
from sentemb_core.types import ArtifactRef, Json
from tasks.benchmark import compare_results, comparison_of
from tasks.benchmark_rows import (
    Scoreboard,
    agreement_rows,
    averages,
    board_rows,
    diagnosis_rows,
    main_scores,
    score_rows,
)
from tasks.benchmark_table import (
    FIELDS,
    HALVES,
    alpha_marks,
    board_json,
    board_notes,
    board_tables,
    board_terminal,
    model_notes,
    points_of,
    write_board,
)
from tasks.execution import dry_run, without_prefect
from tasks.results import ResultRow, ResultTable
from tasks.servers import experiment_id, mlflow_client
from tests import tiny
from tests.flows.corpora import probed
from tests.flows.suites import write_beir, write_data, write_encoder
from tests.messages import pattern
from tests.parquet import write

TASKS = ["cranfield", "sts12", "sts13", "sts-b-dev", "tree_depth"]
MODELS = ["one", "two", "three"]
FIXED = ["BM25", "random", "constant"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """data/, beir/ and three encoders, and one home for all artifacts."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("data", "beir"):
        (folder / name).mkdir()
    write_data(folder / "data")
    write_beir(folder / "beir")
    for seed, name in enumerate(MODELS):
        write_encoder(folder / name, seed)
    with (
        mock.patch.dict(os.environ, {"SENTEMB_HOME": str(folder / "home")}),
        mock.patch.object(bootstrap, "RESAMPLES", 200),
    ):
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        yield folder


def asked(files: Path, *models: str, **changes: object) -> BenchmarkSettings:
    settings = {
        "models": [str(files / name) for name in models or MODELS],
        "data": str(files / "data"),
        "tasks": TASKS,
    }
    return checked_as(BenchmarkSettings, settings | changes)


def board_of(config: BenchmarkSettings) -> Scoreboard:
    with without_prefect():
        return scoreboard(config, "a-run")


def executed_stages(config: BenchmarkSettings) -> list[str]:
    """Stages whose bodies a benchmark runs."""
    with recording(Store.default(), "probe", [], {}) as log:
        board_of(config)
    return [used.stage for used in log.run.stages if not used.hit]


def compared(config: BenchmarkSettings) -> Scoreboard:
    with without_prefect():
        return compare.fn(config)


def write_files(board: Scoreboard, folder: Path) -> Path:
    """Return the folder, which has the board's files and no others."""
    assert set(write_board(board, folder)) == set(folder.iterdir())
    return folder


def main(board: Scoreboard) -> list[ResultRow]:
    return main_scores(score_rows(board))


def lies_within(row: ResultRow) -> bool:
    """Whether a row has a value in its interval."""
    low, value, high = row.low, row.value, row.high
    return low is not None and value is not None and high is not None and low <= value <= high


def values_of(board: Scoreboard) -> dict[tuple[str, str], float]:
    return {(row.task, row.system): row.value or 0.0 for row in main(board)}


def table(board: Scoreboard, id: str) -> ResultTable:
    (found,) = [one for one in board_tables(board, intervals=True) if one.id == id]
    return found


def differences(board: Scoreboard) -> dict[str, dict[str, Comparison]]:
    """Task or average -> the other model -> its difference to the best, or to the first."""
    found: dict[str, dict[str, Comparison]] = {}
    for score, ref in board.found("differences"):
        found.setdefault(score.task, {})[score.baseline] = comparison_of(ref)
    return found


def errors_of(board: Scoreboard) -> dict[tuple[str, str], str]:
    """Task and system -> code of the error."""
    return {(one.task, one.label): one.error[:4] for one in board.scores if one.error}


def exit_code(board: Scoreboard) -> int:
    return exit_code_of(score.error for score in board.scores)


def text(capsys, *results: object) -> str:
    console.show(*results)
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def board(files: Path) -> Scoreboard:
    return board_of(asked(files, beir=[str(files / "beir")]))


def test_every_system_has_a_number_on_every_present_task(board: Scoreboard):
    values = values_of(board)
    assert set(values) == {
        *product(("Cranfield", "beir", "STS12", "STS-B-dev"), (*FIXED, *MODELS)),
        *product(("tree_depth",), MODELS),
    }
    assert values["STS12", "constant"] == 0
    for row in main(board):
        assert lies_within(row)
    assert values["Cranfield", "BM25"] > values["Cranfield", "constant"]
    assert averages(board, main(board), "retrieval")["BM25"] == pytest.approx(
        (values["Cranfield", "BM25"] + values["beir", "BM25"]) / 2
    )


def noted(notes: list[str], *values: str) -> int:
    """How many notes hold all values, in this order."""
    return sum(bool(re.search(".*".join(map(re.escape, values)), note)) for note in notes)


BM25_SETTINGS = ("BM25", "k1 1.2", "b 0.75", "k3 8")


def test_tables_with_bm25_have_its_settings(files: Path, board: Scoreboard, tmp_path: Path, capsys):
    assert noted(board_notes(board), *BM25_SETTINGS) == 1
    assert noted([text(capsys, *board_terminal(board))], *BM25_SETTINGS) == 1
    page = (write_files(board, tmp_path) / "page.html").read_text("utf-8")
    assert noted([page], *BM25_SETTINGS) == 1
    reads: set[str] = set()
    for tasks in (["cranfield"], ["sts12"], ["cranfield", "sts12"]):
        found = compared(asked(files, models=["BM25", "random"], tasks=[*tasks, "sts13"]))
        (note,) = (one for one in board_notes(found) if noted([one], *BM25_SETTINGS))
        fields = [name for name, field in FIELDS.items() if field in note]
        assert fields == (["retrieval"] * ("cranfield" in tasks) + ["sts"] * ("sts12" in tasks))
        reads.add(note)
    assert len(reads) == 3
    found = compared(asked(files, "one", "two", tasks=["cranfield"]))
    assert noted(board_notes(found), "BM25") == 0


def test_an_average_over_some_tasks_of_its_group_names_them(files: Path, tmp_path: Path):
    for name in ("sts_sts12", "sts_sts13", "stsb_dev"):
        source = files / "data" / f"{name.replace('13', '12')}.parquet"
        shutil.copy(source, tmp_path / f"{name}.parquet")
    tasks = ["sts12", "sts13", "sts-b-dev"]
    some = board_of(asked(files, "one", tasks=tasks, data=str(tmp_path)))
    assert noted(board_notes(some), "average", "sts", "STS12, STS13.") == 1
    assert "STS12, STS13." in (write_files(some, tmp_path / "out") / "page.html").read_text("utf-8")
    whole = board_of(asked(files, "one", tasks=tasks[:2], data=str(tmp_path)))
    assert noted(board_notes(whole), "STS12, STS13") == 0


def test_average_is_of_the_papers_sets_and_of_complete_systems(board: Scoreboard):
    scores = main(board)
    assert averages(board, scores, "sts")["one"] == values_of(board)["STS12", "one"]
    partly = [row for row in scores if (row.task, row.system) != ("beir", "two")]
    assert set(averages(board, partly, "retrieval")) == {*FIXED, "one", "three"}


def test_scores_of_several_measures_have_no_average(files: Path, tmp_path: Path):
    first, second = ["w4 w5", "w6 w7", "w8"], ["w4 w9", "w6 w10", "w8 w11"]
    pairs = {"sentence1": first, "sentence2": second, "score": [5.0, 5.0, 1.0]}
    write(tmp_path / "stsb_test.parquet", **pairs)
    write(tmp_path / "product_abt_buy.parquet", title1=first, title2=second, label=[1, 1, 0])
    config = asked(files, "one", "two", data=str(tmp_path), tasks=["STS-B-retrieval", "Abt-Buy"])
    board = board_of(config)
    assert {row.metric for row in main(board)} == {"R@5", "R_cap@10"}
    assert averages(board, main(board), "retrieval") == {}
    assert any("R@5, R_cap@10" in note for note in board_notes(board))
    assert not any(row.factors["part"] == "averages" for row in board_rows(board))
    assert set(differences(compared(config))) == {"STS-B-retrieval", "Abt-Buy"}, "no average"
    assert {row.task: row.units for row in main(board)} == {"STS-B-retrieval": 2, "Abt-Buy": 2}
    assert {system for metric, system in further_values(board, "Abt-Buy") if metric == "P@10"} == {
        *(*FIXED, "one", "two")
    }
    notes = board_notes(board)
    assert noted(notes, "retrieval", "R@5, R_cap@10") == 1
    assert noted(notes, "Abt-Buy 2, STS-B-retrieval 2") == 1, "fewer than 6 units"
    assert noted(notes, "--corpus") == 1, "the overlap is not measured"


def further_values(board: Scoreboard, task: str) -> dict[tuple[str, str], float]:
    """Measure and system -> value, without the main measure."""
    rows = [row for row in board_rows(board) if row.factors["part"] == "further measures"]
    return {(row.metric, row.system): row.value or 0.0 for row in rows if row.task == task}


def test_second_run_runs_no_body(files: Path, board: Scoreboard):
    config = asked(files, beir=[str(files / "beir")])
    assert executed_stages(config) == []
    assert board_of(config) == board


def test_edited_file_runs_its_task_and_a_moved_file_none(files: Path, tmp_path: Path):
    write_data(tmp_path)
    config = asked(files, "one", data=str(tmp_path), tasks=["sts12", "tree_depth"])
    board_of(config)
    assert executed_stages(asked(files, "one", tasks=["sts12", "tree_depth"])) == []
    probing = tmp_path / "probing" / "tree_depth.txt"
    probing.write_text(probing.read_text() + "\nte\t1\tw9 w61", encoding="utf-8")
    assert executed_stages(config) == ["score_transfer"]


def test_dry_run_covers_the_whole_benchmark(files: Path, home: Path):
    with dry_run() as plan:
        scoreboard(asked(files), "plan")
    assert {(one.stage, one.verdict) for one in plan.statuses} == {
        ("kept_encoder", "MISS"),
        ("score_fixed", "MISS"),
        ("score_fixed_similarity", "MISS"),
        ("encode_collection", "AFTER"),
        *((f"score_{name}", "AFTER") for name in ("retrieval", "similarity", "transfer")),
        ("diagnose_on_pairs", "AFTER"),
        ("compare_results", "AFTER"),
    }
    assert not plan.incomplete


def test_dry_run_of_a_comparison_has_its_averages(files: Path, home: Path):
    with dry_run() as plan:
        pair = asked(files, "one", "two", tasks=["cranfield"], beir=[str(files / "beir")])
        comparison(pair, "plan")
    found = [one.verdict for one in plan.statuses if one.stage == "compare_results"]
    assert found == ["AFTER"] * 3, "two tasks and their average"


def test_winner_agrees_with_a_comparison_of_the_two(files: Path, board: Scoreboard):
    values = values_of(board)
    lines = ("Cranfield", "beir", "STS12", "STS-B-dev", "tree_depth", "retrieval, average of 2")
    assert set(differences(board)) == set(lines)
    winners = {score.task: score.system for score, _ in board.found("differences")}
    for task in lines[:-1]:
        best, over = winners[task], differences(board)[task]
        assert best == max(MODELS, key=lambda model: values[task, model])
        assert {best, *over} == set(MODELS)
        (row,) = [
            row for row in board_rows(board) if (row.task, row.factors["part"]) == (task, "winners")
        ]
        rival = row.baseline
        tasks = (
            {"beir": [str(files / "beir")], "tasks": []} if task == "beir" else {"tasks": [task]}
        )
        assert differences(compared(asked(files, best, rival, **tasks))) == {
            task: {rival: over[rival]}
        }
        assert row.low == over[rival].low == min(one.low for one in over.values())


def test_significant_winner_has_a_star(board: Scoreboard):
    significant = set(board.significant_winners())
    rows = [row for row in board_rows(board) if row.factors["part"] == "winners"]
    assert {row.task for row in rows if row.low is not None and row.low > 0} == significant
    starred = [
        line
        for group in ("retrieval", "sts", "probing")
        for line in table(board, group).lines()
        if any(cell.endswith(" *") for cell in line)
    ]
    assert {line[0] for line in starred} == significant
    assert significant
    count = f"{len(significant)} of 6 lines"
    assert noted(board_notes(board), "*", count) == 1


def test_equal_models_have_no_winner_and_one_model_no_line(files: Path, tmp_path: Path):
    shutil.copytree(files / "one", tmp_path / "twin")
    twins = [str(files / "one"), str(tmp_path / "twin")]
    equal = board_of(asked(files, models=twins, tasks=["sts12"]))
    assert list(differences(equal)) == ["STS12"]
    assert equal.significant_winners() == {}
    assert noted(board_notes(equal), "*", "0 of 1 line") == 1
    alone = board_of(asked(files, "one", tasks=["sts12"]))
    assert differences(alone) == {}
    assert noted(board_notes(alone), "*") == 0


def test_csv_json_and_page_hold_the_same_rows(board: Scoreboard, tmp_path: Path):
    folder = write_files(board, tmp_path / "out")
    stored = json.loads((folder / "table.json").read_text("utf-8"))
    rows = [ResultRow.model_validate(row) for row in stored["rows"]]
    assert rows == board_rows(board)
    with (folder / "table.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["value"] for line in lines] == [row.field("value") for row in rows]
    (absent,) = (line for line in lines if line["task"] == "STS13")
    assert "sts_sts13.parquet" in absent["note"]
    assert absent["group"] == "sts"
    assert (folder / "scores.png").stat().st_size > 10_000
    page = (folder / "page.html").read_text(encoding="utf-8")
    for row in main(board):
        numbers = (100 * (value or 0.0) for value in (row.value, row.low, row.high))
        assert "{:.1f} ({:.1f} to {:.1f})".format(*numbers) in page
    assert "<script" not in page
    assert re.search(r'(src|href)="(?!#)', page) is None
    assert all(f'href="#panel-{k}"' in page and f'id="panel-{k}"' in page for k in (1, 2))


def test_tokens_read_of_a_text_are_listed(files: Path, tmp_path: Path):
    short = tiny.static(seed=5)
    cut = Encoder(
        short.backbone, short.tokenizer, pooling="mean", similarity="cosine", max_length=7
    )
    save_encoder(cut, tmp_path / "short", "")
    models = [str(files / "one"), str(tmp_path / "short")]
    found = board_of(asked(files, models=models, tasks=["sts12", "cranfield"]))
    assert noted(board_notes(found), "one 12, short 7") == 1
    assert "one 12, short 7" in (write_files(found, tmp_path / "out") / "page.html").read_text()
    stored = board_json(found)["models"]
    lengths = {name: one["max_length"] for name, one in stored.items()}
    assert lengths == {"one": 12, "short": 7}
    pair = compared(asked(files, models=["BM25", models[1]], tasks=["cranfield"]))
    (baseline, short) = board_json(pair)["models"].items()
    assert baseline == ("BM25", {"model": "BM25"})
    assert (short[0], short[1]["max_length"]) == ("short", 7)
    assert noted(board_notes(pair), "short 7") == 1


def test_terminal_has_scores_absences_diagnostics_and_agreement(
    files: Path, board: Scoreboard, capsys
):
    shown = text(capsys, *board_terminal(board))
    for value in values_of(board).values():
        assert f"{100 * value:.1f}" in shown
    for part in ("sts_sts13.parquet", "positives_at_5", "rho STS, 3 models"):
        assert part in shown
    two = board_of(asked(files, "one", "two"))
    assert not any(row.system.startswith("rho") for row in board_rows(two)), "too few models"


def test_means_over_subsets_differ_where_a_task_has_them(files: Path, tmp_path: Path):
    for name in ("sts_sts12", "stsb_dev"):
        shutil.copy(files / "data" / f"{name}.parquet", tmp_path)
    whole = pq.read_table(tmp_path / "sts_sts12.parquet")
    subsets = pa.array(["news", "forum", "forum"] * 8)
    pq.write_table(whole.append_column("subset", subsets), tmp_path / "sts_sts12.parquet")
    board = board_of(asked(files, "one", "two", tasks=["sts12", "sts-b-dev"], data=str(tmp_path)))
    for task, varies in (("STS12", True), ("STS-B-dev", False)):
        for metric in ("mean", "wmean"):
            differs = {
                further_values(board, task)[metric, system] != values_of(board)[task, system]
                for system in board.columns
            }
            assert (True in differs) == varies


def agreements(
    board: Scoreboard, scores: list[ResultRow], diagnostics: list[ResultRow]
) -> dict[tuple[str, str], float | None]:
    """Group with the number of models, and diagnostic -> rank correlation."""
    rows = agreement_rows(board, scores, diagnostics)
    return {(row.system.removeprefix("rho "), row.metric): row.value for row in rows}


def test_constant_diagnostic_has_no_correlation(board: Scoreboard):
    scores, diagnostics = main(board), diagnosis_rows(board)
    alike = [row.model_copy(update={"value": 0.5}) for row in scores]
    assert agreements(board, alike, diagnostics) == {}
    without_hubs = [
        row.model_copy(update={"value": 0.0}) if row.metric == "hubness" else row
        for row in diagnostics
    ]
    found = agreements(board, scores, without_hubs)
    assert ("Retrieval, 3 models", "hubness") not in found
    assert ("Retrieval, 3 models", "uniformity") in found


def test_one_encoder_under_two_names_is_one_model_of_a_correlation(board: Scoreboard):
    scores, diagnostics = main(board), diagnosis_rows(board)
    found = agreements(board, scores, diagnostics)
    assert {name for name, _ in found} >= {"Retrieval, 3 models"}
    twice = board.model_copy(update={"systems": board.systems | {"three": board.systems["two"]}})
    assert agreements(twice, scores, diagnostics) == {}
    again = [
        row.model_copy(update={"system": "again"})
        for row in (*scores, *diagnostics)
        if row.system == "two"
    ]
    four = board.model_copy(
        update={
            "models": board.models | {"again": ""},
            "systems": board.systems | {"again": board.systems["two"]},
        }
    )
    assert len(averages(four, [*scores, *again[: len(scores)]], "sts")) == len(board.columns) + 1
    assert agreements(four, [*scores, *again], [*diagnostics, *again]) == found


def corpus_of(folder: Path, *documents: list[str] | str) -> Json:
    """A corpus of documents as sentences, or as texts."""
    column = "text" if isinstance(documents[0], str) else "sentences"
    file = folder / "corpus.jsonl"
    file.write_text("\n".join(json.dumps({column: one}) for one in documents), encoding="utf-8")
    return {"source": str(file), f"{column}_column": column}


def corpus_of_sts12(files: Path, folder: Path) -> Json:
    """All first sentences of STS12 as documents of two: half of its texts."""
    first = read_sts(files / "data" / "sts_sts12.parquet").first
    return corpus_of(folder, *(first[k : k + 2] for k in range(0, len(first), 2)))


def overlap_in(rows: list[ResultRow]) -> dict[tuple[str, str], float | None]:
    return {(row.task, row.metric): row.value for row in rows if row.factors["part"] == "overlap"}


def test_corpus_gives_halves_and_overlap(files: Path, tmp_path: Path, capsys):
    corpus = corpus_of_sts12(files, tmp_path)
    found = board_of(asked(files, "one", tasks=["sts12"], corpus=corpus))
    assert overlap_in(board_rows(found))["STS12", "whole texts"] == pytest.approx(0.5, abs=0.03)
    halves = "halves of the corpus's documents"
    samples = {score.task for score, _ in found.found("diagnostics")}
    assert samples == {"pairs of stsb_dev", halves}
    assert table(found, f"diagnostics, {halves}").notes == (HALVES["no"],), "too few held out"
    shown = text(capsys, *board_terminal(found))
    page = (write_files(found, tmp_path / "out") / "page.html").read_text(encoding="utf-8")
    assert "--corpus" not in shown
    assert HALVES["no"] in shown
    assert HALVES["no"] in page
    diagnostics = (table(found, f"diagnostics, {sample}").lines() for sample in samples)
    for line in (
        *table(found, "overlap").lines(),
        *(one for lines in diagnostics for one in lines),
    ):
        assert all(cell in shown and cell in page for cell in line)


def test_comparison_has_the_overlap_of_its_tasks(files: Path, tmp_path: Path, capsys):
    corpus = corpus_of_sts12(files, tmp_path)
    pair = asked(files, "one", "two", tasks=["sts12"], corpus=corpus)
    found = compared(pair)
    overlap = overlap_in(board_rows(found))
    assert overlap["STS12", "whole texts"] == pytest.approx(0.5, abs=0.03)
    (overlaps,) = (one for one in board_tables(found) if one.id == "overlap")
    shown = text(capsys, *board_terminal(found))
    assert all(cell in shown for line in overlaps.lines() for cell in line)
    without = compared(asked(files, "one", "two", tasks=["sts12"]))
    assert overlap_in(board_rows(without)) == {}
    assert "overlap" not in {one.id for one in board_tables(without)}


def test_refused_task_leaves_the_others(files: Path, tmp_path: Path, capsys):
    write_data(tmp_path).joinpath("sts_sts12.parquet").write_text("no parquet")
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12", "tree_depth"]))
    assert {row.task for row in main(board)} == {"tree_depth"}
    assert errors_of(board) == dict.fromkeys([("STS12", name) for name in (*FIXED, "one")], "E103")
    shown = text(capsys, *board_terminal(board))
    assert shown.count("E103") == 1, "once for all systems"
    assert "STS12, BM25, random, constant, one: E103" in shown
    nothing = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12"]))
    assert "STS12, BM25, random, constant, one: E103" in text(capsys, *board_terminal(nothing))
    folder = write_files(nothing, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("page.html", "table.csv", "table.json")
    ]


def test_diverged_model_has_errors_in_place_of_numbers(files: Path, tmp_path: Path):
    diverged = tiny.static(seed=0)
    diverged.backbone.embedding.weight.data.fill_(math.nan)
    save_encoder(diverged, tmp_path / "diverged", "# diverged\n")
    corpus = corpus_of(tmp_path, *([f"w{k} w{k + 1}", f"w{k} w{k + 2}"] for k in range(20)))
    models = [str(files / "one"), str(tmp_path / "diverged")]
    board = board_of(asked(files, models=models, tasks=["sts12"], corpus=corpus))
    samples = ("pairs of stsb_dev", "halves of the corpus's documents")
    assert [(score.task, score.system) for score, _ in board.found("diagnostics")] == [
        (sample, "one") for sample in samples
    ]
    assert errors_of(board) == dict.fromkeys(
        [(task, "diverged") for task in ("STS12", *samples)], "E201"
    )
    assert exit_code(board) == 3


def fails_on(task: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one task end in this error for every system."""

    def failing(place, *others):
        if place.task.name == task:
            raise error
        return result_on(place, *others)

    monkeypatch.setattr("flows.benchmark.result_on", failing)


def test_unexpected_error_on_a_task_leaves_the_others(files: Path, monkeypatch):
    fails_on("STS12", ZeroDivisionError("of nothing"), monkeypatch)
    board = board_of(asked(files, "one", tasks=["sts12", "tree_depth"]))
    assert {row.task for row in main(board)} == {"tree_depth"}
    assert errors_of(board)["STS12", "one"] == "E000"
    assert exit_code(board) == 3


def test_unexpected_error_of_a_comparison_leaves_the_table(files: Path, monkeypatch):
    def failing(line: str, pairs: list[tuple[ArtifactRef, ArtifactRef]]) -> ArtifactRef:
        if line == "STS12":
            raise ZeroDivisionError("of nothing")
        return compare_results(line, pairs)

    monkeypatch.setattr(benchmark, "compare_results", failing)
    board = board_of(asked(files, "one", "two", tasks=["sts12", "tree_depth"]))
    assert list(differences(board)) == ["tree_depth"]
    assert {row.task for row in main(board)} == {"STS12", "tree_depth"}
    ((place, code),) = errors_of(board).items()
    assert (place[0], code) == ("STS12", "E000")
    assert set(place[1].split(" minus ")) == {"one", "two"}
    assert exit_code(board) == 3


@pytest.mark.parametrize("error", [StorageError("no space left."), ConnectError("no answer")])
def test_full_disk_and_lost_server_end_the_benchmark(files: Path, monkeypatch, error):
    fails_on("STS12", error, monkeypatch)
    with pytest.raises(type(error)):
        board_of(asked(files, "one", tasks=["sts12", "tree_depth"]))


def test_unreadable_pairs_leave_the_table(files: Path, tmp_path: Path):
    write_data(tmp_path).joinpath("stsb_dev.parquet").write_text("no parquet")
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12"]))
    assert set(values_of(board)) == {("STS12", name) for name in (*FIXED, "one")}
    assert errors_of(board) == {("pairs of stsb_dev", "one"): "E103"}
    assert list(board.found("diagnostics")) == []
    assert "E103" in (write_files(board, tmp_path / "out") / "page.html").read_text("utf-8")
    assert exit_code(board) == 3


def test_unreadable_set_leaves_the_overlap_of_the_others(files: Path, tmp_path: Path):
    write_data(tmp_path).joinpath("sts_sts12.parquet").write_text("no parquet")
    corpus = corpus_of(tmp_path, ["w5 w6 w7", "w8 w9"]) | {"splitter": "none"}
    tasks = ["sts12", "tree_depth"]
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=tasks, corpus=corpus))
    assert {task for task, _ in overlap_in(board_rows(board))} == {"tree_depth"}
    assert {task for task, _ in errors_of(board)} == {"STS12"}
    assert exit_code(board) == 3


def test_corpus_without_documents_is_refused_first(files: Path, tmp_path: Path, home: Path):
    corpus = corpus_of(tmp_path, *(f"w{k} w{k + 1} w{k + 2}" for k in range(30)))
    config = asked(files, "one", tasks=["sts12"], corpus=corpus)
    with (
        probed() as log,
        pytest.raises(EmptyPairsError, match="splitter"),
    ):
        scoreboard(config, "a-run")
    assert log.run.stages == []


def test_name_is_shown_as_it_is(files: Path, tmp_path: Path, capsys):
    odd = write_encoder(tmp_path / "[bold]x", seed=0)
    models = [odd, str(files / "two")]
    assert "[bold]x" in text(
        capsys, *board_terminal(board_of(asked(files, models=models, tasks=["sts12"])))
    )
    found = compared(asked(files, models=models, tasks=["sts12"]))
    assert "[bold]x" in text(capsys, *board_terminal(found))


def test_encoder_equals_itself(files: Path, tmp_path: Path):
    same = shutil.copytree(files / "one", tmp_path / "copy")
    pair = compared(asked(files, models=[str(files / "one"), str(same)]))
    assert len({encoder.digest for encoder in pair.encoders.values()}) == 1
    assert noted(board_notes(pair), "one and copy") == 1
    assert not any(re.search(r"\d of \d", note) for note in board_notes(pair)), "no verdict"
    found = [one["copy"] for one in differences(pair).values()]
    assert [one.task for one in found] == ["Cranfield", "STS12", "STS-B-dev", "tree_depth"]
    assert {(one.difference, one.winner) for one in found} == {(0.0, "undecided")}


def settings_of(record: Json, verb: Callable[..., int]) -> object:
    """The settings that a record hands to that verb."""
    job = table_job(record)
    assert job
    assert isinstance(job.run, partial)
    assert job.run.func is verb
    return job.run.args[0]


def test_comparison_has_a_record_and_a_plan(files: Path, capsys):
    config = asked(files, "one", "two", tasks=["sts12"])
    compared(config)
    (record, *_) = last_runs(Store.default())
    assert settings_of(record.config, run_compare) == config
    assert (record.state, record.stages[-1].stage) == ("completed", "compare_results")
    assert console.run(app, ["status", record.id, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in plan} == {"HIT"}
    assert plan[-1]["stage"] == "compare_results"


def test_baseline_is_compared_where_no_vectors_are_needed(files: Path):
    found = compared(asked(files, models=["bm25", "Constant"], beir=[str(files / "beir")]))
    rows = [row for row in board_rows(found) if row.baseline]
    assert [row.task for row in rows] == [
        *("Cranfield", "STS12", "STS-B-dev", "beir", "retrieval, average of 2")
    ]
    assert (rows[0].system, rows[0].baseline) == ("bm25", "Constant")
    assert rows[0].factors["verdict"] == "bm25"
    assert board_json(found)["left_out"] == ["tree_depth"]
    retrieval = table(found, "retrieval")
    assert retrieval.head()[3:] == ["bm25", "Constant", "bm25 minus Constant (95 %)"]
    assert [line[0] for line in retrieval.lines() if all(line)] == [
        *("Cranfield", "beir", "retrieval, average of 2")
    ]
    notes = board_notes(found)
    assert noted(notes, "tree_depth", "bm25 and Constant have none") == 1
    won = [row.factors["verdict"] for row in rows if row.task in ("Cranfield", "STS12", "beir")]
    counts = (won.count("bm25"), won.count("Constant"))
    assert noted(notes, f"bm25 is significantly better on {counts[0]} of 3") == 1
    assert noted(notes, f"Constant on {counts[1]}") == 1
    assert noted(notes, *BM25_SETTINGS) == 1
    assert [row.task for row in board_rows(found) if row.factors["part"] == "errors"] == ["STS13"]


def test_record_resumes_from_any_folder(files: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(files)
    Path("corpus.jsonl").write_text('{"text": "It rains. It snows."}\n', encoding="utf-8")
    given = {"models": ["one", "minilm"], "data": "data", "beir": ["beir"], "out": "table"}
    config = with_full_paths(
        benchmark_settings(given | {"tasks": ["sts12"]}, {"source": "corpus.jsonl"})
    )
    monkeypatch.chdir(tmp_path)
    assert settings_of(config.model_dump(mode="json"), run_benchmark) == config
    assert config.models == (str(files / "one"), "minilm")
    assert [folder for _, folder in config.places()] == [files / "data", files / "beir"]
    assert config.out == str(files / "table")
    assert config.corpus is not None
    assert config.corpus.source == str(files / "corpus.jsonl")


@pytest.mark.parametrize("verb", ["benchmark {0}/one", "compare {0}/one {0}/two"])
def test_corpus_is_checked_with_the_network_off(files: Path, verb: str, call, monkeypatch):
    """Its name may be that of a data set on a hub."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    offline: list[str | None] = []

    def check(_: CorpusConfig) -> NoReturn:
        offline.append(os.environ.get("HF_HUB_OFFLINE"))
        raise UsageError("seen")

    monkeypatch.setattr("flows.cli.evaluate.check_corpus", check)
    options = f" --data {files}/data --tasks sts12 --corpus org/name"
    assert call(*f"{verb}{options}".format(files).split())[0] == 2
    assert offline == ["1"]


@pytest.mark.parametrize(
    ("tasks", "values"),
    [(["tree_depth"], "bm25.*tree_depth"), (["tree_depth", "cacm"], "bm25.*CACM.*tree_depth")],
)
def test_baseline_is_refused_if_every_present_task_needs_vectors(
    files: Path, tasks: list[str], values: str
):
    with pytest.raises(UsageError, match=values):
        compared(asked(files, models=[str(files / "one"), "bm25"], tasks=tasks))


def test_names_in_a_table_are_the_shortest_unique_ends(monkeypatch: pytest.MonkeyPatch):
    models = ["models:/news@champion", "/runs/a/model", "/runs/b/model", "minilm", "org/name"]
    assert list(labelled(models)) == ["news@champion", "a/model", "b/model", "minilm", "name"]
    assert list(labelled(["model", "old/model"])) == ["model", "old/model"]
    folder = f"/home/objects/sha256/ab/{'ab12' * 16}/data"
    assert labelled([folder, "other/data"]) == {"ab12ab12ab12": folder, "data": "other/data"}
    made = ArtifactRef(kind="model", digest="ab" * 32, size=1)
    monkeypatch.setattr("tasks.benchmark_table.max_lengths", lambda board: {})
    models = labelled(["/runs/a/model", "minilm", "random"])
    encoders = {"model": made, "minilm": made}
    (note,) = model_notes(
        Scoreboard(run="", models=models, systems=encoders, fixed=[], tasks=[], scores=[])
    )
    assert re.search(pattern("model /runs/a/model abababababab"), note)
    assert list(labelled(["models:/news@champion", "out/news@champion", "."])) == [
        *("models:/news@champion", "out/news@champion", ".")
    ]
    assert list(labelled(["/runs/random", "/runs/one"], taken=["random"])) == ["runs/random", "one"]


def test_folder_named_as_another_task_is_its_own_task(files: Path, tmp_path: Path):
    """There are two folders named Cranfield, one of them twice, and the task of the suite."""
    folders = [write_beir(tmp_path / name / "Cranfield") for name in "ab"]
    again = tmp_path / "a" / "." / "Cranfield"
    config = asked(files, "one", tasks=["cranfield"], beir=[*map(str, [*folders, again])])
    values = values_of(board_of(config))
    names = ["Cranfield", "a/Cranfield", "b/Cranfield"]
    assert list(dict.fromkeys(task for task, _ in values)) == names
    assert values["a/Cranfield", "BM25"] != values["Cranfield", "BM25"]
    models = ["BM25", str(files / "one")]
    found = compared(asked(files, models=models, tasks=["cranfield"], beir=[str(folders[0])]))
    rows = {task: one["one"] for task, one in differences(found).items() if task in names}
    assert {task: row.first for task, row in rows.items()} == {
        task: values[task, "BM25"] for task in names[:2]
    }


def test_folder_named_as_a_built_in_encoder_is_not_it(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(files / "one", tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "encoder_from", lambda config, _: config.name)
    with without_prefect():
        assert system_of("minilm") == "minilm"
        assert isinstance(system_of("./minilm"), ArtifactRef)
    shutil.rmtree(tmp_path / "minilm")
    (tmp_path / "minilm").mkdir()
    check_models(["minilm"])
    with pytest.raises(MissingEncoderError):
        check_models(["./minilm"])


def test_bare_transformer_is_a_start_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As `save_pretrained` leaves it: no modules.json names its pooling."""
    save_encoder(tiny.bert(), tmp_path / "bare", "card")
    (tmp_path / "bare" / "modules.json").unlink()
    monkeypatch.setattr(benchmark, "encoder_from", lambda config, _: config.name)
    with without_prefect():
        assert system_of(str(tmp_path / "bare")) == str(tmp_path / "bare")
    check_models([str(tmp_path / "bare")])


def test_folder_named_as_a_baseline_is_its_own_model(files: Path, tmp_path: Path):
    model = write_encoder(tmp_path / "random", seed=3)
    board = board_of(asked(files, models=[model], tasks=["cranfield"]))
    assert board.columns == [*FIXED, f"{tmp_path.name}/random"]
    assert len({row.system for row in main(board)}) == 4


def test_task_and_folder_may_differ_in_case_only(files: Path, tmp_path: Path):
    beir = [str(write_beir(tmp_path / "cranfield"))]
    for names, places in [
        (["Cranfield"], [files / "data", tmp_path / "cranfield"]),
        (["cranfield"], [tmp_path / "cranfield"]),
    ]:
        found = asked(files, "one", tasks=names, beir=beir).places()
        assert [folder for _, folder in found] == places


def test_beir_folder_named_among_the_tasks_stands_alone(files: Path, tmp_path: Path):
    write_beir(tmp_path / "tickets")
    alone = asked(files, "one", tasks=["Tickets"], beir=[str(tmp_path / "tickets")])
    assert [task.name for task, _ in alone.places()] == ["tickets"]
    both = asked(files, "one", tasks=["tickets", "sts12"], beir=[str(tmp_path / "tickets")])
    assert [task.name for task, _ in both.places()] == ["STS12", "tickets"]
    with pytest.raises(UsageError, match="'tickets'"):
        asked(files, "one", tasks=["tickets"]).places()


def test_unknown_task_is_refused_with_the_names_of_the_folders(files: Path, tmp_path: Path):
    folders = [str(write_beir(tmp_path / name / "tickets")) for name in ("old", "new")]
    with pytest.raises(UsageError, match=r"'new-tickets'.*'new/tickets'\?$"):
        asked(files, "one", tasks=["new-tickets"], beir=folders).places()
    with pytest.raises(UsageError, match=r"'nosuch'.* retrieval, .*, old/tickets, new/tickets$"):
        asked(files, "one", tasks=["nosuch"], beir=folders).places()


def test_error_of_every_system_is_shown_once(files: Path, tmp_path: Path, capsys):
    folder = write_beir(tmp_path / "tickets")
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("\nq0\tnowhere\t1\n")
    beir = [str(folder)]
    board = board_of(asked(files, "one", "two", tasks=["tickets"], beir=beir))
    shown = text(capsys, *board_terminal(board))
    assert shown.count("E501") == 1
    assert "tickets, BM25, random, constant, one, two: E501" in shown
    assert len(errors_of(board)) == 5
    found = compared(asked(files, "one", "two", tasks=["tickets"], beir=beir))
    shown = text(capsys, *board_terminal(found))
    assert shown.count("E501") == shown.count("tickets, one, two: E501") == 1
    assert "better" not in shown, "there is no verdict"
    assert differences(found) == {}


def split_folder(folder: Path, *splits: str) -> Path:
    """A BEIR folder whose queries each of these splits has."""
    test = write_beir(folder) / "qrels" / "test.tsv"
    for split in splits:
        (test.parent / f"{split}.tsv").write_text(test.read_text())
    test.unlink()
    return folder


def test_only_split_of_a_folder_is_used_and_named(files: Path, tmp_path: Path):
    only = split_folder(tmp_path / "marco", "dev")
    config = asked(files, "one", data=None, tasks=[], beir=[str(only)])
    config.check_files()
    assert {(row.task, row.units) for row in main(board_of(config))} == {("marco (dev)", 4)}


def test_test_is_preferred_among_several_splits(files: Path, tmp_path: Path):
    several = split_folder(tmp_path / "several", "dev", "train")
    config = asked(files, "one", tasks=[], beir=[str(several)])
    with pytest.raises(UnreadableSourceError, match=r"several .*dev, train.*--beir-split"):
        config.check_files()
    shutil.copy(several / "qrels" / "dev.tsv", several / "qrels" / "test.tsv")
    assert [task.name for task, _ in config.places()] == ["several"]


def test_split_that_is_asked_for_is_used_in_every_folder(files: Path, tmp_path: Path):
    several = split_folder(tmp_path / "several", "dev", "train")
    (several / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n0\t1\t1")
    shutil.copytree(several, tmp_path / "tested")
    shutil.copy(several / "qrels" / "train.tsv", tmp_path / "tested" / "qrels" / "test.tsv")
    both = [str(several), str(tmp_path / "tested")]
    config = with_full_paths(asked(files, "one", data=None, tasks=[], beir=both, split="dev"))
    config.check_files()
    found = {(row.task, row.units) for row in main(board_of(config))}
    assert found == {("several (dev)", 1), ("tested (dev)", 1)}
    pair = compared(config.model_copy(update={"models": ("BM25", str(files / "one"))}))
    assert list(differences(pair))[:2] == ["several (dev)", "tested (dev)"]
    values = r"several .*qrels/test\.tsv.*--beir-split.* dev, train"
    with pytest.raises(UnreadableSourceError, match=values):
        asked(files, "one", beir=both, split="test").check_files()


def test_files_are_checked_before_anything_runs(files: Path, tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=rf"{tmp_path} lacks corpus\.jsonl"):
        asked(files, beir=[str(tmp_path)]).check_files()
    with pytest.raises(UnreadableSourceError, match=r"absent (?!lacks)"):
        asked(files, "one", beir=[str(tmp_path / "absent")]).check_files()
    with pytest.raises(UsageError, match="'stsb'"):
        asked(files, data=None, tasks=["STSB"]).check_files()
    with pytest.raises(UsageError, match=r"--data FOLDER.*\$SENTEMB_DATA"):
        asked(files, data=None).check_files()


@pytest.mark.parametrize(
    ("arguments", "status", "values"),
    [
        ("benchmark", 2, "E001 --tasks --beir"),
        ("benchmark F/one --tasks nosuch DATA", 2, "E001 'nosuch' retrieval sts"),
        ("benchmark F/one --tasks sts13 DATA", 3, "E103 sts_sts13.parquet --data"),
        ("benchmark --tasks sts12 F/one", 2, "E001 --tasks --beir"),
        ("benchmark F/one DATA --beir", 2, "E001 --beir"),
        ("benchmark F/one --data F/none", 3, "E103 F/none --data $SENTEMB_DATA"),
        ("benchmark F/one DATA --tasks sts12 --fusion", 2, "E001 --fusion --tasks"),
        (
            "benchmark F/one DATA --beir F/beir --beir-split dev",
            3,
            "E103 F/beir qrels/dev.tsv --beir-split test",
        ),
        (
            "compare F/one F/two DATA --beir F/beir --beir-split dev",
            3,
            "E103 F/beir qrels/dev.tsv --beir-split test",
        ),
        ("benchmark F/one DATA --beir-split dev", 2, "E001 --beir-split dev --beir FOLDER"),
        ("benchmark Random DATA", 2, "E001 Random `compare Random"),
        ("benchmark /nosuch/folder --tasks sts12 DATA", 2, "E401 '/nosuch/folder'"),
        ("benchmark F/one --corpus nosuch.jsonl --tasks sts12 DATA", 3, "E103 nosuch.jsonl"),
        ("benchmark F/one --id-column x DATA", 2, "E001 --id-column --corpus FILE"),
        ("compare F/one F/two --id-column x DATA", 2, "E001 --id-column --corpus FILE"),
        ("compare F/one F/two --corpus nosuch.jsonl DATA", 3, "E103 nosuch.jsonl"),
        ("compare F/one F/two DATA --beir-split dev", 2, "E001 --beir-split dev --beir FOLDER"),
        ("compare F/one", 2, "E001 SECOND"),
        ("compare F/one F/one DATA", 2, "E001 models F/one 2"),
        ("compare BM25 BM25 DATA", 2, "E001 models BM25 2"),
        ("compare F/one F/two --tasks sts13 DATA", 3, "E103 sts_sts13.parquet --data"),
        ("compare F/one BM25 --tasks tree_depth DATA", 2, "E001 BM25 tree_depth --tasks"),
        ("compare F/one nosuch --tasks sts12 DATA", 2, "E401 'nosuch'"),
        (
            "benchmark F/pickled --tasks sts12 DATA",
            3,
            "E402 safetensors F/pickled pytorch_model.bin",
        ),
        ("benchmark nosuch/name --tasks sts12 DATA", 2, "E401 'nosuch/name'"),
        ("benchmark static --tasks sts12 DATA", 2, "E001 'static' minilm"),
        (
            "benchmark F/one --tasks sts12 DATA --out F/data/a_file.parquet",
            2,
            "E001 F/data/a_file.parquet --out",
        ),
    ],
)
def test_mistake_is_one_line_with_its_code_and_values(
    files: Path, capsys, arguments: str, status: int, values: str
):
    """The values stand in the error in this order."""
    (files / "data" / "a_file.parquet").touch()
    pickled = shutil.copytree(files / "one", files / "pickled", dirs_exist_ok=True)
    (pickled / "pytorch_model.bin").touch()
    given = arguments.replace("DATA", "--data F/data").replace("F/", f"{files}/").split()
    found = console.run(app, given)
    output, errors = capsys.readouterr()
    assert (found, output) == (status, "")
    error, code, found = errors.split(maxsplit=2)
    assert (error, code) == ("error", values.split()[0])
    assert re.search(pattern(values.partition(" ")[2].replace("F/", f"{files}/")), found)
    assert len(errors.splitlines()) == 1


def test_dry_run_lists_stages_by_section(files: Path, tmp_path: Path, capsys):
    new = write_encoder(tmp_path / "new", seed=9)
    arguments = ["benchmark", new, "--tasks", "sts12", "--data", str(files / "data"), "--dry-run"]
    assert console.run(app, [*arguments, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [row["stage"] for row in plan] == [
        *("kept_encoder", *["score_fixed_similarity"] * 3, "score_similarity", "diagnose_on_pairs")
    ]
    assert [row["part"] for row in plan] == [
        *("", *(f"{name}: STS12" for name in (*FIXED, "new")), "new: pairs of stsb_dev")
    ]
    assert console.run(app, [*arguments, "--tasks", "sts13"]) == 0
    assert re.search(r"STS13: .*sts_sts13\.parquet", capsys.readouterr().out)


def test_mlflow_has_only_the_files_of_the_board(files: Path, tmp_path: Path):
    (tmp_path / ".env").write_text("SECRET=1")
    with without_prefect():
        board = benchmark.benchmark.fn(asked(files, "one", tasks=["sts12"], out=str(tmp_path)))
    home = Store.default().root
    client = mlflow_client(home)
    runs = client.search_runs([experiment_id(home)], f"tags.run = '{board.run}'")
    (run,) = (run.info.run_id for run in runs)
    assert {file.path for file in client.list_artifacts(run)} == {
        *("page.html", "scores.png", "table.csv", "table.json")
    }


@pytest.mark.server
@pytest.mark.slow
def test_under_prefect_mlflow_has_a_child_per_system(prefect_server, files: Path, capsys):
    tasks = ["--tasks", "sts12", "cranfield", "--data", str(files / "data"), "--json"]
    models = [str(files / "one"), str(files / "two")]
    assert console.run(app, ["benchmark", *models, *tasks]) == 0
    stored = json.loads(capsys.readouterr().out)
    scores = main_scores(ResultRow.model_validate(row) for row in stored["rows"])
    assert len(scores) == 2 * (2 + len(FIXED))

    home = Store.default().root
    runs = mlflow_client(home).search_runs([experiment_id(home)])
    named = {run.info.run_name: run.data.metrics for run in runs}
    assert {"one", "two", *FIXED} < set(named)
    (value,) = (row.value for row in scores if (row.task, row.system) == ("STS12", "two"))
    assert named["two"]["sts/STS12/spearman"] == pytest.approx(value)

    assert console.run(app, ["compare", *models, *tasks]) == 0
    pair = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in pair["rows"] if "baseline" in row] == ["Cranfield", "STS12"]
    assert console.run(app, ["status", stored["run"], "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in plan} == {"HIT"}
    assert console.run(app, ["report"]) == 2  # a table returns no encoder to report on


def test_fusion_is_scored_on_queries_that_did_not_choose_alpha(files: Path, tmp_path: Path):
    config = asked(files, "one", "two", tasks=["cranfield", "sts12"], fusion=True)
    found = board_of(config)
    rows = [row for row in board_rows(found) if row.factors.get("model") == "one"]
    fused = [row for row in rows if row.factors["part"] == "fusion"]
    assert {row.task for row in fused} == {"Cranfield"}
    assert all(row.units is not None and row.units < 12 for row in fused)
    values = {row.system: row.value or 0.0 for row in fused if not row.baseline}
    for row in fused:
        assert lies_within(row)
        if row.baseline:
            assert row.value == pytest.approx(values[row.system] - values[row.baseline])
    curve = {
        float(row.factors["alpha"]): row.value or 0.0
        for row in rows
        if row.factors["part"] == "fusion by alpha"
    }
    (alpha,) = {float(row.factors["alpha"]) for row in fused if "alpha" in row.factors}
    assert curve[alpha] == max(curve.values())

    folder = write_files(found, tmp_path / "out")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert all(cell in page for line in table(found, "fusion").lines() for cell in line)
    assert (folder / "alpha.png").stat().st_size > 10_000
    drawn = points_of(board_rows(found), FIXED)
    of_one = ["one", "BM25 + alpha one", "ranks of BM25 and one"]
    assert [point.system for point in drawn if point.panel.startswith("Words")] == [
        *("BM25", *of_one),
        *(name.replace("one", "two") for name in of_one),
    ]
    marks = alpha_marks(board_rows(found))
    assert {mark.x or 0.0: mark.values[0] for mark in marks if mark.curve != "two"} == {
        alpha: 100 * value for alpha, value in curve.items()
    }
    assert [mark.arm for mark in marks].count("BM25") == 1
    assert executed_stages(config) == []
    assert "score_fusion" not in executed_stages(asked(files, "one", tasks=["cranfield"]))


def test_refused_fusion_leaves_no_table(files: Path, tmp_path: Path):
    """With one query, no other one is left to choose alpha."""
    write_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\t1")
    config = asked(files, "one", data=None, tasks=[], beir=[str(tmp_path)], fusion=True)
    board = board_of(config)
    assert len(main(board)) == len(FIXED) + 1
    assert list(board.found("fusion")) == []
    assert errors_of(board) == {(tmp_path.name, "one with BM25"): "E502"}
    assert "fusion" not in {one.id for one in board_tables(board)}
    assert exit_code(board) == 3
