"""The suite's flow: one table of models and fixed rows, what is absent, and what is real."""

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
from flows.benchmark import encoder_of, scoreboard
from flows.benchmark_settings import BenchmarkSettings
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
from flows.compare import compare, duel
from flows.scoring import result_on
from flows.short_names import labelled
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
from sentemb_core.evaluation.label_free import Diagnosis
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs, recording
from sentemb_core.types import ArtifactRef, Json
from tasks.benchmark import compare_results, comparison_of, diagnosis_of
from tasks.execution import dry_run, without_prefect
from tasks.fusion import Estimate, Fusion
from tasks.mlflow_client import experiment_id, mlflow_client
from tasks.tables.duel import Duel, duel_json, duel_tables
from tasks.tables.scoreboard import Scoreboard, agreements, averages, cells_of, models_told
from tasks.tables.scoreboard_lines import HALVES, diagnosis_lines, fusion_lines, overlap_lines
from tasks.tables.scoreboard_tables import board_json, scoreboard_tables, write_board
from tests import tiny
from tests.flows.suites import write_beir, write_data, write_encoder
from tests.parquet import write

TASKS = ["cranfield", "sts12", "sts13", "sts-b-dev", "tree_depth"]
MODELS = ["one", "two", "three"]
FIXED = ["BM25", "random", "constant"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """data/, beir/ and three encoders, and one home for all that is made of them."""
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
    with without_prefect(Store.default()):
        return scoreboard(config, "a-run")


def ran(config: BenchmarkSettings) -> list[str]:
    """Stages whose bodies a benchmark runs."""
    with recording(Store.default(), "probe", [], {}) as log:
        board_of(config)
    return [used.stage for used in log.run.stages if not used.hit]


def duel_of(config: BenchmarkSettings) -> Duel:
    with without_prefect(Store.default()):
        return compare.fn(config)


def written(board: Scoreboard, folder: Path) -> Path:
    """The folder, which now has the board's files and these alone."""
    assert set(write_board(board, folder)) == set(folder.iterdir())
    return folder


@pytest.fixture(scope="module")
def board(files: Path) -> Scoreboard:
    return board_of(asked(files, beir=[str(files / "beir")]))


def test_every_system_has_a_number_on_every_task_that_is_there(board: Scoreboard):
    cells = cells_of(board)
    found = {(cell.task, cell.system): cell.value for cell in cells}
    assert set(found) == {
        *product(("Cranfield", "beir", "STS12", "STS-B-dev"), (*FIXED, *MODELS)),
        *product(("tree_depth",), MODELS),
    }
    assert found["STS12", "constant"] == 0
    assert all(cell.low <= cell.value <= cell.high for cell in cells)
    assert found["Cranfield", "BM25"] > found["Cranfield", "constant"]
    assert averages(board, cells, "retrieval")["BM25"] == pytest.approx(
        (found["Cranfield", "BM25"] + found["beir", "BM25"]) / 2
    )


def test_only_sets_of_the_papers_are_averaged_and_a_system_must_have_them_all(board: Scoreboard):
    cells = cells_of(board)
    assert averages(board, cells, "sts")["one"] == next(
        cell.value for cell in cells if (cell.task, cell.system) == ("STS12", "one")
    )
    partly = [cell for cell in cells if (cell.task, cell.system) != ("beir", "two")]
    assert set(averages(board, partly, "retrieval")) == {*FIXED, "one", "three"}


def test_a_table_with_bm25_says_which_it_is(board: Scoreboard, tmp_path: Path, capsys):
    told = (
        "BM25: k1 1.2, b 0.75, k3 8; title and text as one field, a pair by the mean of its "
        "sentences asking the set for each other, words lowercased and not "
    )
    assert told in shown(capsys, *scoreboard_tables(board))
    assert told in (written(board, tmp_path) / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("task", "read"),
    [
        ("cranfield", "title and text as one field"),
        ("sts12", "a pair by the mean of its sentences asking the set for each other"),
    ],
)
def test_what_bm25_reads_is_told_of_the_tasks_that_were_run(
    files: Path, capsys, task: str, read: str
):
    duel = duel_of(asked(files, models=["BM25", "random"], tasks=[task, "sts13"]))
    assert f"k3 8; {read}, words lowercased" in shown(capsys, *duel_tables(duel))


def test_an_average_over_some_tasks_of_its_group_names_them(files: Path, tmp_path: Path, capsys):
    for name in ("sts_sts12", "sts_sts13", "stsb_dev"):
        shutil.copy(
            files / "data" / f"{name.replace('13', '12')}.parquet", tmp_path / f"{name}.parquet"
        )
    tasks = ["sts12", "sts13", "sts-b-dev"]
    some = board_of(asked(files, "one", tasks=tasks, data=str(tmp_path)))
    note = "The average of sts is of STS12, STS13."
    assert note in shown(capsys, *scoreboard_tables(some))
    assert note in (written(some, tmp_path / "out") / "page.html").read_text("utf-8")
    whole = board_of(asked(files, "one", tasks=tasks[:2], data=str(tmp_path)))
    assert "The average of" not in shown(capsys, *scoreboard_tables(whole))


def test_scores_of_several_measures_have_no_average(files: Path, tmp_path: Path, capsys):
    first, second = ["w4 w5", "w6 w7", "w8"], ["w4 w9", "w6 w10", "w8 w11"]
    pairs = {"sentence1": first, "sentence2": second, "score": [5.0, 5.0, 1.0]}
    write(tmp_path / "stsb_test.parquet", **pairs)
    write(tmp_path / "product_abt_buy.parquet", title1=first, title2=second, label=[1, 1, 0])
    config = asked(files, "one", "two", data=str(tmp_path), tasks=["STS-B-retrieval", "Abt-Buy"])
    board = board_of(config)
    cells = cells_of(board)
    assert {cell.measure for cell in cells} == {"R@5", "R_cap@10"}
    assert averages(board, cells, "retrieval") == {}
    said = shown(capsys, *scoreboard_tables(board))
    assert "average" not in said
    assert duel_of(config).averages == []
    told = {one.system: one.measures["P@10"] for one in cells if one.task == "Abt-Buy"}
    line = f"Abt-Buy, P@10: {'; '.join(f'{name} {100 * of:.1f}' for name, of in told.items())}"
    assert line in " ".join(said.split())
    assert line in (written(board, tmp_path / "out") / "page.html").read_text("utf-8")
    assert "STS-B-retrieval, P@10" not in said
    few = {one.task: one.units for one in cells}
    assert few == {"STS-B-retrieval": 2, "Abt-Buy": 2}
    assert "Abt-Buy: 2 units, fewer than 6, so that its intervals say nothing" in said
    assert "measured where its corpus is named: --corpus" in " ".join(said.split())


def test_a_second_run_runs_no_body_and_gives_the_same(files: Path, board: Scoreboard):
    config = asked(files, beir=[str(files / "beir")])
    assert ran(config) == []
    assert board_of(config) == board


def test_an_edited_file_runs_its_task_alone_and_a_moved_one_none(files: Path, tmp_path: Path):
    write_data(tmp_path)
    config = asked(files, "one", data=str(tmp_path), tasks=["sts12", "tree_depth"])
    board_of(config)
    assert ran(asked(files, "one", tasks=["sts12", "tree_depth"])) == []
    probing = tmp_path / "probing" / "tree_depth.txt"
    probing.write_text(probing.read_text() + "\nte\t1\tw9 w61", encoding="utf-8")
    assert ran(config) == ["score_transfer"]


def test_a_plan_walks_the_whole_benchmark_and_computes_nothing(files: Path, tmp_path: Path):
    with dry_run(Store(tmp_path)) as plan:
        scoreboard(asked(files), "plan")
    assert {(told.stage, told.verdict) for told in plan.statuses} == {
        ("kept_encoder", "MISS"),
        ("score_fixed", "MISS"),
        ("score_fixed_similarity", "MISS"),
        ("encode_collection", "AFTER"),
        *((f"score_{name}", "AFTER") for name in ("retrieval", "similarity", "transfer")),
        ("diagnose_on_pairs", "AFTER"),
        ("compare_results", "AFTER"),
    }
    assert not plan.incomplete


def test_a_plan_of_a_comparison_has_its_averages(files: Path, tmp_path: Path):
    with dry_run(Store(tmp_path)) as plan:
        duel(asked(files, "one", "two", tasks=["cranfield"], beir=[str(files / "beir")]))
    compared = [told.verdict for told in plan.statuses if told.stage == "compare_results"]
    assert compared == ["AFTER"] * 3, "two tasks and their average"


def test_the_best_model_leads_by_what_a_comparison_of_the_two_tells(files: Path, board: Scoreboard):
    values = {(cell.task, cell.system): cell.value for cell in cells_of(board)}
    lines = ("Cranfield", "beir", "STS12", "STS-B-dev", "tree_depth", "retrieval, average of 2")
    assert set(board.leads) == set(lines)
    for task in lines[:-1]:
        lead = board.leads[task]
        assert lead.best == max(MODELS, key=lambda model: values[task, model])
        assert {lead.best, *lead.over} == set(MODELS)
        rival, closest = lead.least_sure
        asked_of = (
            {"beir": [str(files / "beir")], "tasks": []} if task == "beir" else {"tasks": [task]}
        )
        (ref,) = duel_of(asked(files, lead.best, rival, **asked_of)).rows
        assert comparison_of(ref) == closest
        assert closest.low == min(comparison_of(one).low for one in lead.over.values())


def test_a_lead_has_a_star_and_is_told_where_it_is_sure(board: Scoreboard, tmp_path: Path, capsys):
    sure = {name for name, lead in board.leads.items() if lead.is_sure}
    told = board_json(board)["leads"]
    assert {name for name, one in told.items() if one["sure"]} == sure
    assert all(one["over"][m]["low"] > 0 for n in sure for one in [told[n]] for m in one["over"])
    folder = written(board, tmp_path / "out")
    page = (folder / "page.html").read_text("utf-8")
    assert all(f"{lead.best} less {lead.least_sure[0]} +" in page for lead in board.leads.values())
    terminal = " ".join(shown(capsys, *scoreboard_tables(board)).split())
    assert f"so in {len(sure)} of 6 lines" in terminal
    assert len(re.findall(r"\* \d", terminal)) == len(sure) > 0


def test_of_two_equal_models_none_leads_and_of_one_nothing_is_said(
    files: Path, tmp_path: Path, capsys
):
    shutil.copytree(files / "one", tmp_path / "twin")
    twins = [str(files / "one"), str(tmp_path / "twin")]
    equal = board_of(asked(files, models=twins, tasks=["sts12"]))
    assert [lead.is_sure for lead in equal.leads.values()] == [False]
    assert "so in 0 of 1 line." in " ".join(shown(capsys, *scoreboard_tables(equal)).split())
    alone = board_of(asked(files, "one", tasks=["sts12"]))
    assert alone.leads == {}
    assert "*: better" not in shown(capsys, *scoreboard_tables(alone))


def test_table_csv_and_json_tell_the_same_numbers(board: Scoreboard, tmp_path: Path):
    folder = written(board, tmp_path / "out")
    told = json.loads((folder / "table.json").read_text("utf-8"))
    assert told == json.loads(json.dumps(board_json(board)))
    with (folder / "table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    main = {(row["task"], row["system"]): float(row["value"]) for row in rows if row["main"] == "1"}
    assert main == {(one["task"], one["system"]): one["value"] for one in told["scores"]}
    (absent,) = (row for row in rows if row["task"] == "STS13")
    assert (absent["group"], absent["note"]) == ("sts", "not run: wants sts_sts13.parquet")
    assert len(json.loads((folder / "scores.json").read_text("utf-8"))) == len(told["scores"])
    assert (folder / "scores.png").stat().st_size > 10_000


def test_how_much_of_a_text_each_model_reads_is_told_wherever_its_numbers_are(
    files: Path, tmp_path: Path, capsys
):
    short = tiny.static(seed=5)
    cut = Encoder(
        short.backbone, short.tokenizer, pooling="mean", similarity="cosine", max_length=7
    )
    save_encoder(cut, tmp_path / "short", "")
    models = [str(files / "one"), str(tmp_path / "short")]
    found = board_of(asked(files, models=models, tasks=["sts12", "cranfield"]))
    note = "Tokens read of a text that is encoded, the rest is cut: one 12, short 7."
    told = " ".join(shown(capsys, *scoreboard_tables(found)).split())
    assert note in told
    assert board_json(found)["models"]["short"]["max_length"] == 7
    folder = written(found, tmp_path / "out")
    assert note in (folder / "page.html").read_text("utf-8")
    with (folder / "table.csv").open(encoding="utf-8") as file:
        lengths = {row["system"]: row["max_length"] for row in csv.DictReader(file)}
    assert lengths == {"BM25": "", "random": "", "constant": "", "one": "12", "short": "7"}

    duel = duel_of(asked(files, models=["BM25", models[1]], tasks=["cranfield"]))
    assert duel_json(duel)["max_length"] == {"short": 7}
    assert "the rest is cut: short 7." in " ".join(shown(capsys, *duel_tables(duel)).split())


def test_the_page_has_every_number_of_the_table_and_loads_nothing(board: Scoreboard, tmp_path):
    page = (written(board, tmp_path) / "page.html").read_text(encoding="utf-8")
    for cell in cells_of(board):
        assert f"{100 * cell.value:.1f} ({100 * cell.low:.1f} to {100 * cell.high:.1f})" in page
    assert "<script" not in page
    assert re.search(r'(src|href)="(?!#)', page) is None
    assert all(f'href="#panel-{k}"' in page and f'id="panel-{k}"' in page for k in (1, 2))


def shown(capsys, *results: object) -> str:
    console.show(*results)
    return capsys.readouterr().out


def test_a_person_reads_scores_absences_diagnostics_and_their_agreement(
    files: Path, board: Scoreboard, capsys
):
    said = shown(capsys, *scoreboard_tables(board))
    value = next(one.value for one in cells_of(board) if (one.task, one.system) == ("beir", "two"))
    line = next(line for line in said.splitlines() if line.split()[:1] == ["beir"])
    assert line.split()[-2] == f"{100 * value:.1f}"
    assert "not run: wants sts_sts13.parquet" in " ".join(said.split())
    assert "positives at 5" in said
    assert "rho STS, 3 models" in " ".join(said.split())
    assert "rank correlation over different models" in " ".join(said.split())
    two = board_of(asked(files, "one", "two"))
    assert "rho" not in shown(capsys, *scoreboard_tables(two))  # over two models it says nothing


def test_mean_and_weighted_mean_are_told_of_tasks_with_subsets_alone(
    files: Path, tmp_path: Path, capsys
):
    """The terminal and the page have them as table.csv has."""
    for name in ("sts_sts12", "stsb_dev"):
        shutil.copy(files / "data" / f"{name}.parquet", tmp_path)
    whole = pq.read_table(tmp_path / "sts_sts12.parquet")
    subsets = pa.array(["news", "forum", "forum"] * 8)
    pq.write_table(whole.append_column("subset", subsets), tmp_path / "sts_sts12.parquet")
    board = board_of(asked(files, "one", "two", tasks=["sts12", "sts-b-dev"], data=str(tmp_path)))
    told = {cell.system: cell.measures for cell in cells_of(board) if cell.task == "STS12"}
    numbers = "; ".join(
        f"{name} {100 * of['mean']:.1f}, {100 * of['wmean']:.1f}" for name, of in told.items()
    )
    line = f"STS12, mean and weighted mean over its subsets: {numbers}"
    said = shown(capsys, *scoreboard_tables(board))
    page = (written(board, tmp_path / "out") / "page.html").read_text("utf-8")
    assert line in " ".join(said.split())
    assert line in page
    assert [text.count("over its subsets") for text in (said, page)] == [1, 1]


def test_a_diagnostic_that_is_the_same_for_all_models_goes_with_nothing(
    board: Scoreboard, monkeypatch
):
    (sample,) = board.diagnoses
    cells = cells_of(board)
    alike = [cell.model_copy(update={"value": 0.5}) for cell in cells]
    assert agreements(board, alike, sample) == {}

    def without_hubs(ref: ArtifactRef) -> Diagnosis:
        return diagnosis_of(ref).model_copy(update={"hubness": 0.0})

    monkeypatch.setattr("tasks.tables.scoreboard.diagnosis_of", without_hubs)
    agreed = agreements(board, cells, sample)
    rho = {line[0]: line[-1] for line in diagnosis_lines(board.diagnoses[sample], agreed)}
    assert rho["hubness"] == ""
    assert rho["uniformity"] != ""


def test_a_corpus_gives_halves_and_overlaps(files: Path, tmp_path: Path, capsys):
    """All first sentences of STS12 as documents of two: half of its texts."""
    first = read_sts(files / "data" / "sts_sts12.parquet").first
    rows = [{"sentences": first[k : k + 2]} for k in range(0, len(first), 2)]
    copied = tmp_path / "corpus.jsonl"
    copied.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    corpus = {"source": str(copied), "sentences_column": "sentences"}
    found = board_of(asked(files, "one", tasks=["sts12"], corpus=corpus))
    told = board_json(found)
    assert told["overlap"]["STS12"]["exact"] == pytest.approx(1 / 2, abs=0.03)
    assert set(told["diagnostics"]) == {"pairs of stsb_dev", "halves of the corpus's documents"}
    said = shown(capsys, *scoreboard_tables(found))
    page = (written(found, tmp_path / "out") / "page.html").read_text(encoding="utf-8")
    for lines in (
        overlap_lines(found.overlap),
        *(diagnosis_lines(told, {}) for told in found.diagnoses.values()),
    ):
        assert all(text in said and text in page for line in lines for text in line)
    assert all(HALVES[False] in text for text in (said, page)), "too few are held out"
    assert "--corpus" not in said


def test_a_duel_tells_what_the_training_corpus_has_of_its_tasks(
    files: Path, tmp_path: Path, capsys
):
    first = read_sts(files / "data" / "sts_sts12.parquet").first
    copied = tmp_path / "corpus.jsonl"
    rows = [{"sentences": first[k : k + 2]} for k in range(0, len(first), 2)]
    copied.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    corpus = {"source": str(copied), "sentences_column": "sentences"}
    models = [str(files / "one"), str(files / "two")]
    duel = duel_of(asked(files, models=models, tasks=["sts12"], corpus=corpus))
    assert duel_json(duel)["overlap"]["STS12"]["exact"] == pytest.approx(1 / 2, abs=0.03)
    said = shown(capsys, *duel_tables(duel))
    assert duel.overlap
    assert all(text in said for line in overlap_lines(duel.overlap) for text in line)
    without = duel_of(asked(files, models=models, tasks=["sts12"]))
    assert duel_json(without)["overlap"] == {}
    assert "Overlap" not in shown(capsys, *duel_tables(without))


def test_a_model_that_a_task_refuses_leaves_the_others(files: Path, tmp_path: Path, capsys):
    write_data(tmp_path)
    (tmp_path / "sts_sts12.parquet").write_text("no parquet")
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12", "tree_depth"]))
    assert [cell.task for cell in cells_of(board)] == ["tree_depth"]
    assert "STS12, BM25, random, constant, one: E103" in shown(capsys, *scoreboard_tables(board))
    nothing = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12"]))
    assert "STS12, BM25, random, constant, one: E103" in shown(capsys, *scoreboard_tables(nothing))
    folder = written(nothing, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("page.html", "scores.json", "table.csv", "table.json")
    ]


def exit_code(board: Scoreboard) -> int:
    return exit_code_of(score.error for score in board.scores)


def test_a_diverged_model_has_errors_in_place_of_numbers_and_diagnostics(
    files: Path, tmp_path: Path, capsys
):
    diverged = tiny.static(seed=0)
    diverged.backbone.embedding.weight.data.fill_(math.nan)
    save_encoder(diverged, tmp_path / "diverged", "# diverged\n")
    source = tmp_path / "corpus.jsonl"
    rows = [{"sentences": [f"w{k} w{k + 1}", f"w{k} w{k + 2}"]} for k in range(20)]
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    corpus = {"source": str(source), "sentences_column": "sentences"}
    models = [str(files / "one"), str(tmp_path / "diverged")]
    board = board_of(asked(files, models=models, tasks=["sts12"], corpus=corpus))
    assert {sample: list(told) for sample, told in board.diagnoses.items()} == {
        "pairs of stsb_dev": ["one"],
        "halves of the corpus's documents": ["one"],
    }
    refused = board_json(board)["refused"]
    assert {where: error[:4] for where, error in refused.items()} == {
        "STS12, diverged": "E201",
        "pairs of stsb_dev, diverged": "E201",
        "halves of the corpus's documents, diverged": "E201",
    }
    said = shown(capsys, *scoreboard_tables(board))
    assert "halves of the corpus's documents, diverged: E201" in said
    assert exit_code(board) == 3


def fails_on(task: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task ends in this error, for every system."""

    def failing(place, *others):
        if place.task.name == task:
            raise error
        return result_on(place, *others)

    monkeypatch.setattr("flows.benchmark.result_on", failing)


def test_a_task_that_nobody_foresaw_failing_leaves_the_others(files: Path, monkeypatch):
    fails_on("STS12", ZeroDivisionError("of nothing"), monkeypatch)
    board = board_of(asked(files, "one", tasks=["sts12", "tree_depth"]))
    assert [cell.task for cell in cells_of(board)] == ["tree_depth"]
    assert board_json(board)["refused"]["STS12, one"] == "E000 ZeroDivisionError: of nothing"
    assert exit_code(board) == 3


def test_a_comparison_that_nobody_foresaw_failing_leaves_the_table(
    files: Path, capsys, monkeypatch
):
    def failing(line: str, pairs: list[tuple[ArtifactRef, ArtifactRef]]) -> ArtifactRef:
        if line == "STS12":
            raise ZeroDivisionError("of nothing")
        return compare_results(line, pairs)

    monkeypatch.setattr(benchmark, "compare_results", failing)
    board = board_of(asked(files, "one", "two", tasks=["sts12", "tree_depth"]))
    assert list(board.leads) == ["tree_depth"]
    assert {cell.task for cell in cells_of(board)} == {"STS12", "tree_depth"}
    told = "STS12, who leads: E000 ZeroDivisionError: of nothing"
    assert told in shown(capsys, *scoreboard_tables(board))
    assert exit_code(board) == 3


@pytest.mark.parametrize("error", [StorageError("no space left."), ConnectError("no answer")])
def test_a_full_disk_and_a_lost_server_end_the_benchmark(files: Path, monkeypatch, error):
    fails_on("STS12", error, monkeypatch)
    with pytest.raises(type(error)):
        board_of(asked(files, "one", tasks=["sts12", "tree_depth"]))


def test_pairs_that_cannot_be_read_leave_the_table(files: Path, tmp_path: Path, capsys):
    write_data(tmp_path)
    (tmp_path / "stsb_dev.parquet").write_text("no parquet")
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=["sts12"]))
    assert [(cell.task, cell.system) for cell in cells_of(board)] == [
        ("STS12", name) for name in (*FIXED, "one")
    ]
    said = shown(capsys, *scoreboard_tables(board))
    assert "pairs of stsb_dev, one: E103" in said
    assert "Without labels" not in said  # no table of nothing
    page = (written(board, tmp_path / "out") / "page.html").read_text(encoding="utf-8")
    assert "pairs of stsb_dev, one: E103" in page
    assert exit_code(board) == 3


def test_a_set_that_cannot_be_read_leaves_the_overlap_of_the_others(files: Path, tmp_path: Path):
    write_data(tmp_path)
    (tmp_path / "sts_sts12.parquet").write_text("no parquet")
    source = tmp_path / "corpus.jsonl"
    source.write_text('{"sentences": ["w5 w6 w7", "w8 w9"]}', encoding="utf-8")
    corpus = {"source": str(source), "sentences_column": "sentences", "splitter": "none"}
    tasks = ["sts12", "tree_depth"]
    board = board_of(asked(files, "one", data=str(tmp_path), tasks=tasks, corpus=corpus))
    assert [cell.task for cell in cells_of(board)] == ["tree_depth"]
    told = board_json(board)
    assert list(told["refused"]) == [f"STS12, {name}" for name in (*FIXED, "one")]
    assert list(told["overlap"]) == ["tree_depth"]
    assert exit_code(board) == 3


def test_a_corpus_without_documents_is_refused_before_anything_is_scored(
    files: Path, tmp_path: Path
):
    source = tmp_path / "corpus.jsonl"
    rows = [{"text": f"w{k} w{k + 1} w{k + 2}"} for k in range(30)]
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    corpus = {"source": str(source), "text_column": "text"}
    config = asked(files, "one", tasks=["sts12"], corpus=corpus)
    with (
        recording(Store(tmp_path / "home"), "probe", [], {}) as log,
        without_prefect(Store(tmp_path / "home")),
        pytest.raises(EmptyPairsError, match="splitter"),
    ):
        scoreboard(config, "a-run")
    assert log.run.stages == []


def test_a_name_is_shown_as_it_is(files: Path, tmp_path: Path, capsys):
    odd = write_encoder(tmp_path / "[bold]x", seed=0)
    models = [odd, str(files / "two")]
    board = board_of(asked(files, models=models, tasks=["sts12"]))
    assert "[bold]x" in shown(capsys, *scoreboard_tables(board))
    duel = duel_of(asked(files, models=models, tasks=["sts12"]))
    said = shown(capsys, *duel_tables(duel))
    assert "[bold]x" in said
    assert "would look real" in said


def test_differences_are_paired_and_an_encoder_equals_itself(files: Path, tmp_path: Path, capsys):
    same = shutil.copytree(files / "one", tmp_path / "copy")
    duel = duel_of(asked(files, models=[str(files / "one"), str(same)]))
    said = shown(capsys, *duel_tables(duel))
    assert "one and copy are one encoder." in " ".join(said.split())
    assert "would look real" not in said
    found = [comparison_of(ref) for ref in duel.rows]
    assert [row.task for row in found] == ["Cranfield", "STS12", "STS-B-dev", "tree_depth"]
    assert {(row.difference, row.verdict) for row in found} == {(0.0, "undecided")}


def asked_for(record: Json, verb: Callable[..., int]) -> object:
    """What the settings of a record ask that verb for."""
    job = table_job(record)
    assert job
    assert isinstance(job.run, partial)
    assert job.run.func is verb
    return job.run.args[0]


def test_a_comparison_is_on_record_and_has_a_plan(files: Path, capsys):
    config = asked(files, "one", "two", tasks=["sts12"])
    duel_of(config)
    (record, *_) = last_runs(Store.default())
    assert asked_for(record.config, run_compare) == config
    assert (record.state, record.stages[-1].stage) == ("completed", "compare_results")
    assert console.run(app, ["status", record.id, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in plan} == {"HIT"}
    assert plan[-1]["stage"] == "compare_results"


def test_a_fixed_row_can_be_one_side_where_no_vectors_are_read(files: Path, capsys):
    duel = duel_of(asked(files, models=["bm25", "Constant"], beir=[str(files / "beir")]))
    rows = [comparison_of(ref) for ref in [*duel.rows, *duel.averages]]
    assert [row.task for row in rows] == [
        *("Cranfield", "STS12", "STS-B-dev", "beir", "retrieval, average of 2")
    ]
    assert rows[0].verdict == "first"
    said = shown(capsys, *duel_tables(duel))
    assert "bm25 is better on" in said
    assert "a probe reads vectors, and there are none of bm25 and Constant: tree_depth." in said
    assert "differences would look real. Not counted, as in" in said  # too few for a number
    assert "BM25: k1 1.2, b 0.75, k3 8; " in said
    told = duel_json(duel)
    assert told["tasks"][0]["better"] == "bm25"
    assert told["left_out"] == ["tree_depth"]
    assert list(told["not_run"]) == ["STS13"]


def test_a_record_is_gone_on_with_from_any_folder(files: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(files)
    Path("corpus.jsonl").write_text('{"text": "It rains. It snows."}\n', encoding="utf-8")
    given = {"models": ["one", "minilm"], "data": "data", "beir": ["beir"], "out": "table"}
    asked = benchmark_settings(given | {"tasks": ["sts12"]}, {"source": "corpus.jsonl"})
    config = with_full_paths(asked)
    monkeypatch.chdir(tmp_path)
    assert asked_for(config.model_dump(mode="json"), run_benchmark) == config
    assert config.models == (str(files / "one"), "minilm")
    assert [folder for _, folder in config.places()] == [files / "data", files / "beir"]
    assert config.out == str(files / "table")
    assert config.corpus is not None
    assert config.corpus.source == str(files / "corpus.jsonl")


@pytest.mark.parametrize("verb", ["benchmark {0}/one", "compare {0}/one {0}/two"])
def test_a_corpus_is_looked_at_only_when_the_network_is_off(
    files: Path, verb: str, call, monkeypatch
):
    """Its name may be that of a data set on a hub."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    found: list[str | None] = []

    def looked_at(_: CorpusConfig) -> NoReturn:
        found.append(os.environ.get("HF_HUB_OFFLINE"))
        raise UsageError("seen")

    monkeypatch.setattr("flows.cli.evaluate.check_corpus", looked_at)
    options = f" --data {files}/data --tasks sts12 --corpus org/name"
    assert call(*f"{verb}{options}".format(files).split())[0] == 2
    assert found == ["1"]


def test_a_fixed_row_is_refused_where_all_that_is_there_reads_vectors(files: Path):
    models = [str(files / "one"), "bm25"]
    with pytest.raises(UsageError, match=r"none of bm25; asked for is tree_depth: name"):
        duel_of(asked(files, models=models, tasks=["tree_depth"]))
    told = r"is CACM \(not run: wants ir_cacm_docs.*\), tree_depth: name"
    with pytest.raises(UsageError, match=told):
        duel_of(asked(files, models=models, tasks=["tree_depth", "cacm"]))


def test_names_in_a_table_are_short_where_they_are_clear():
    models = ["models:/news@champion", "/runs/a/model", "/runs/b/model", "minilm", "org/name"]
    assert list(labelled(models)) == ["news@champion", "a/model", "b/model", "minilm", "name"]
    assert list(labelled(["model", "old/model"])) == ["model", "old/model"]
    folder = f"/home/objects/sha256/ab/{'ab12' * 16}/data"
    assert labelled([folder, "other/data"]) == {"ab12ab12ab12": folder, "data": "other/data"}
    made = ArtifactRef(kind="model", digest="ab" * 32, size=1)
    named = labelled(["/runs/a/model", "minilm", "random"])
    told = models_told(named, {"model": made, "minilm": made})
    assert told == ["model: /runs/a/model, encoder abababababab"]
    assert list(labelled(["models:/news@champion", "out/news@champion", "."])) == [
        *("models:/news@champion", "out/news@champion", ".")
    ]
    assert list(labelled(["/runs/random", "/runs/one"], taken=["random"])) == ["runs/random", "one"]


def test_a_folder_called_as_another_task_is_a_task_of_its_own(files: Path, tmp_path: Path):
    """Of three folders called Cranfield, one twice, and the suite's task."""
    folders = [write_beir(tmp_path / name / "Cranfield") for name in "ab"]
    again = tmp_path / "a" / "." / "Cranfield"
    config = asked(files, "one", tasks=["cranfield"], beir=[*map(str, [*folders, again])])
    found = {(cell.task, cell.system): cell.value for cell in cells_of(board_of(config))}
    names = ["Cranfield", "a/Cranfield", "b/Cranfield"]
    assert list(dict.fromkeys(task for task, _ in found)) == names
    assert found["a/Cranfield", "BM25"] != found["Cranfield", "BM25"]
    models = ["BM25", str(files / "one")]
    duel = duel_of(asked(files, models=models, tasks=["cranfield"], beir=[str(folders[0])]))
    rows = [comparison_of(ref) for ref in duel.rows]
    assert {row.task: row.first for row in rows} == {
        task: found[task, "BM25"] for task in names[:2]
    }


def test_a_folder_called_as_a_named_encoder_is_not_it(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(files / "one", tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "encoder_from", lambda config, _: config.name)
    with without_prefect(Store.default()):
        assert encoder_of("minilm") == "minilm"
        assert isinstance(encoder_of("./minilm"), ArtifactRef)
    shutil.rmtree(tmp_path / "minilm")
    (tmp_path / "minilm").mkdir()
    check_models(["minilm"])
    with pytest.raises(MissingEncoderError):
        check_models(["./minilm"])


def test_a_bare_transformer_is_a_start_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As `save_pretrained` leaves it: no modules.json says how it pools."""
    save_encoder(tiny.bert(), tmp_path / "bare", "card")
    (tmp_path / "bare" / "modules.json").unlink()
    monkeypatch.setattr(benchmark, "encoder_from", lambda config, _: config.name)
    with without_prefect(Store.default()):
        assert encoder_of(str(tmp_path / "bare")) == str(tmp_path / "bare")
    check_models([str(tmp_path / "bare")])


def test_a_folder_called_as_a_fixed_row_is_a_model_of_its_own(files: Path, tmp_path: Path):
    model = write_encoder(tmp_path / "random", seed=3)
    board = board_of(asked(files, models=[model], tasks=["cranfield"]))
    assert board.systems == [*FIXED, f"{tmp_path.name}/random"]
    assert len({cell.system for cell in cells_of(board)}) == 4


def test_a_task_and_a_folder_that_differ_in_case_alone_are_both_named(files: Path, tmp_path: Path):
    beir = [str(write_beir(tmp_path / "cranfield"))]
    for names, places in [
        (["Cranfield"], [files / "data", tmp_path / "cranfield"]),
        (["cranfield"], [tmp_path / "cranfield"]),
    ]:
        asked_for = asked(files, "one", tasks=names, beir=beir).places()
        assert [folder for _, folder in asked_for] == places


def test_a_folder_that_is_not_there_is_not_said_to_lack_a_file(files: Path, tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=r"absent is no folder\.$"):
        asked(files, "one", beir=[str(tmp_path / "absent")]).check_files()


def test_a_beir_folder_is_judged_alone_where_its_name_is_the_only_one(files: Path, tmp_path: Path):
    write_beir(tmp_path / "tickets")
    alone = asked(files, "one", tasks=["Tickets"], beir=[str(tmp_path / "tickets")])
    assert [task.name for task, _ in alone.places()] == ["tickets"]
    both = asked(files, "one", tasks=["tickets", "sts12"], beir=[str(tmp_path / "tickets")])
    assert [task.name for task, _ in both.places()] == ["STS12", "tickets"]
    with pytest.raises(UsageError, match="There is no task 'tickets'"):
        asked(files, "one", tasks=["tickets"]).places()


def test_a_task_that_nobody_has_is_told_with_the_names_of_the_folders(files: Path, tmp_path: Path):
    folders = [str(write_beir(tmp_path / name / "tickets")) for name in ("old", "new")]
    with pytest.raises(UsageError, match=r"did you mean 'new/tickets'\?$"):
        asked(files, "one", tasks=["new-tickets"], beir=folders).places()
    with pytest.raises(UsageError, match=r"known: retrieval, .*, old/tickets, new/tickets$"):
        asked(files, "one", tasks=["nosuch"], beir=folders).places()


def test_an_error_of_every_system_is_told_once(files: Path, tmp_path: Path, capsys):
    folder = write_beir(tmp_path / "tickets")
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.write("\nq0\tnowhere\t1\n")
    beir = [str(folder)]
    board = board_of(asked(files, "one", "two", tasks=["tickets"], beir=beir))
    said = shown(capsys, *scoreboard_tables(board))
    assert said.count("E501") == 1
    assert "tickets, BM25, random, constant, one, two: E501" in said
    assert len(board_json(board)["refused"]) == 5
    duel = duel_of(asked(files, "one", "two", tasks=["tickets"], beir=beir))
    told = shown(capsys, *duel_tables(duel))
    assert told.count("tickets, one, two: E501") == 1
    assert "is better on" not in told


def split_folder(folder: Path, *splits: str) -> Path:
    """A BEIR folder whose queries each of these splits has."""
    test = write_beir(folder) / "qrels" / "test.tsv"
    for split in splits:
        (test.parent / f"{split}.tsv").write_text(test.read_text())
    test.unlink()
    return folder


def test_the_only_split_of_a_folder_judges_and_is_told(files: Path, tmp_path: Path):
    only = split_folder(tmp_path / "marco", "dev")
    config = asked(files, "one", data=None, tasks=[], beir=[str(only)])
    config.check_files()
    cells = cells_of(board_of(config))
    assert {cell.task for cell in cells} == {"marco (dev)"}
    assert {cell.units for cell in cells} == {4}


def test_of_several_splits_test_judges_and_without_it_none(files: Path, tmp_path: Path):
    several = split_folder(tmp_path / "several", "dev", "train")
    config = asked(files, "one", tasks=[], beir=[str(several)])
    with pytest.raises(
        UnreadableSourceError, match=r"E103 .*has dev, train: choose one with --beir-split"
    ):
        config.check_files()
    shutil.copy(several / "qrels" / "dev.tsv", several / "qrels" / "test.tsv")
    assert [task.name for task, _ in config.places()] == ["several"]


def test_the_split_that_is_asked_for_judges_every_folder(files: Path, tmp_path: Path):
    several = split_folder(tmp_path / "several", "dev", "train")
    (several / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n0\t1\t1")
    shutil.copytree(several, tmp_path / "tested")
    shutil.copy(several / "qrels" / "train.tsv", tmp_path / "tested" / "qrels" / "test.tsv")
    both = [str(several), str(tmp_path / "tested")]
    config = with_full_paths(asked(files, "one", data=None, tasks=[], beir=both, split="dev"))
    config.check_files()
    found = {(cell.task, cell.units) for cell in cells_of(board_of(config))}
    assert found == {("several (dev)", 1), ("tested (dev)", 1)}
    models = ["BM25", str(files / "one")]
    duel = duel_of(config.model_copy(update={"models": tuple(models)}))
    assert [comparison_of(row).task for row in duel.rows][:2] == ["several (dev)", "tested (dev)"]
    with pytest.raises(UnreadableSourceError, match=r"--beir-split test .*several has dev, train"):
        asked(files, "one", beir=both, split="test").check_files()


@pytest.mark.parametrize("verb", ["benchmark FILES/one", "compare FILES/one FILES/two"])
@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (
            "--beir FILES/beir --beir-split dev",
            3,
            "E103 --beir-split dev judges every BEIR folder by qrels/d",
        ),
        ("--beir-split dev", 2, "E001 --beir-split dev chooses the queries of BEIR folders, and"),
    ],
)
def test_a_split_that_no_folder_has_is_told(
    files: Path, capsys, verb: str, options: str, code: int, told: str
):
    words = f"{verb} --data FILES/data --tasks sts12 {options}".replace("FILES", str(files))
    assert console.run(app, words.split()) == code
    assert told in capsys.readouterr().err


def test_files_are_looked_for_before_anything_runs(files: Path, tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=r"lacks sts_sts13\.parquet.*--data"):
        asked(files, tasks=["sts13"]).check_files()
    with pytest.raises(UnreadableSourceError, match=r"lacks corpus\.jsonl"):
        asked(files, beir=[str(tmp_path)]).check_files()
    with pytest.raises(UsageError, match=r"There is no task 'stsb'"):
        asked(files, data=None, tasks=["STSB"]).check_files()
    with pytest.raises(UsageError, match="--data FOLDER"):
        asked(files, data=None).check_files()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("benchmark", 2, "E001 a benchmark compares models, and none is named: name one or more"),
        ("benchmark FILES/one --tasks nosuch --data FILES/data", 2, "There is no task 'nosuch'"),
        ("benchmark FILES/one --tasks sts13 --data FILES/data", 3, "E103 None of the tasks"),
        ("benchmark --tasks sts12 FILES/one", 2, "name one or more, before --tasks and --beir"),
        ("benchmark FILES/one --data FILES/data --beir", 2, "E001 --beir wants a name or more"),
        ("benchmark FILES/one --data FILES/none", 3, "E103 The suite's files lie in one folder"),
        ("benchmark FILES/one --data FILES/data --tasks sts12 --fusion", 2, "E001 --fusion joins"),
        ("benchmark Random --data FILES/data", 2, "Random stands in every table of retrieval by"),
        ("benchmark /nosuch/folder --tasks sts12 --data FILES/data", 2, "E401"),
        ("benchmark FILES/one --corpus nosuch.jsonl --tasks sts12 --data FILES/data", 3, "E103"),
        ("benchmark FILES/one --id-column x --data FILES/data", 2, "none is named: name it with"),
        ("compare FILES/one FILES/two --id-column x --data FILES/data", 2, "--corpus FILE"),
        ("compare FILES/one FILES/two --corpus nosuch.jsonl --data FILES/data", 3, "E103"),
        ("compare FILES/one", 2, "E001"),
        ("compare FILES/one FILES/one --data FILES/data", 2, "one is named 2 times: name it once"),
        ("compare BM25 BM25 --data FILES/data", 2, "E001 models: a table has each model once"),
        ("compare FILES/one FILES/two --tasks sts13 --data FILES/data", 3, "E103"),
        ("compare FILES/one BM25 --tasks tree_depth --data FILES/data", 2, "E001 A probe reads ve"),
        ("compare FILES/one nosuch --tasks sts12 --data FILES/data", 2, "'nosuch' is no folder"),
        ("benchmark FILES/pickled --tasks sts12 --data FILES/data", 3, "E402 Weights are read"),
        ("benchmark nosuch/name --tasks sts12 --data FILES/data", 2, "E401 An encoder is a folder"),
        ("benchmark static --tasks sts12 --data FILES/data", 2, "E001 'static' is no encoder bef"),
        (
            "benchmark FILES/one --tasks sts12 --data FILES/data --out FILES/data/a_file.parquet",
            2,
            "E001 A table and its figure lie in a folder, and FILES/data/a_file.parquet cannot",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(files: Path, capsys, arguments: str, code: int, told: str):
    (files / "data" / "a_file.parquet").touch()
    pickled = shutil.copytree(files / "one", files / "pickled", dirs_exist_ok=True)
    (pickled / "pytorch_model.bin").touch()
    found = console.run(app, arguments.replace("FILES", str(files)).split())
    said, errors = capsys.readouterr()
    assert (found, said) == (code, "")
    assert told.replace("FILES", str(files)) in errors
    assert len(errors.splitlines()) == 1


def test_a_dry_run_says_what_would_run(files: Path, tmp_path: Path, capsys):
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
    assert "STS13: not run: wants sts_sts13.parquet" in capsys.readouterr().out


def test_mlflow_has_a_boards_files_and_nothing_else_of_the_folder_they_lie_in(
    files: Path, tmp_path: Path
):
    (tmp_path / ".env").write_text("SECRET=1")
    with without_prefect(Store.default()):
        board = benchmark.benchmark.fn(asked(files, "one", tasks=["sts12"], out=str(tmp_path)))
    home = Store.default().root
    client = mlflow_client(home)
    runs = client.search_runs([experiment_id(home)], f"tags.run = '{board.run}'")
    (run,) = (run.info.run_id for run in runs)
    assert {file.path for file in client.list_artifacts(run)} == {
        *("page.html", "scores.json", "scores.png", "table.csv", "table.json")
    }


@pytest.mark.server
@pytest.mark.slow
def test_under_prefect_the_door_prints_json_and_mlflow_has_a_child_per_system(
    prefect_server, files: Path, capsys
):
    tasks = ["--tasks", "sts12", "cranfield", "--data", str(files / "data"), "--json"]
    models = [str(files / "one"), str(files / "two")]
    assert console.run(app, ["benchmark", *models, *tasks]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["scores"]) == 2 * (2 + len(FIXED))

    home = Store.default().root
    runs = mlflow_client(home).search_runs([experiment_id(home)])
    named = {run.info.run_name: run.data.metrics for run in runs}
    assert {"one", "two", *FIXED} < set(named)
    (value,) = (
        one["value"] for one in told["scores"] if (one["task"], one["system"]) == ("STS12", "two")
    )
    assert named["two"]["sts/STS12/spearman"] == pytest.approx(value)

    assert console.run(app, ["compare", *models, *tasks]) == 0
    duel = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in duel["tasks"]] == ["Cranfield", "STS12"]
    assert console.run(app, ["status", told["run"], "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in plan} == {"HIT"}
    assert console.run(app, ["report"]) == 2  # a table returns no encoder to report on


def test_words_and_vectors_together_are_told_on_queries_that_chose_nothing(
    files: Path, tmp_path: Path, capsys
):
    config = asked(files, "one", "two", tasks=["cranfield", "sts12"], fusion=True)
    found = board_of(config)
    told = board_json(found)["fusions"]
    assert {model: list(tasks) for model, tasks in told.items()} == {
        "one": ["Cranfield"],
        "two": ["Cranfield"],
    }
    one = told["one"]["Cranfield"]
    assert one["queries"] < 12
    assert one["curve"][str(one["alpha"])] == max(one["curve"].values())
    values = {system: told["value"] for system, told in one["values"].items()}
    for joined, gains in one["gains"].items():
        for alone, gain in gains.items():
            assert gain["value"] == pytest.approx(values[joined] - values[alone])
            assert gain["low"] <= gain["value"] <= gain["high"]
    lines = fusion_lines(found.fusions)
    assert [line[3] for line in lines[1:]] == [f"alpha {one['alpha']:g}", "rank fusion"] * 2
    said = shown(capsys, *scoreboard_tables(found))
    folder = written(found, tmp_path / "out")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "Words and vectors together" in page
    for line in lines:
        assert all(cell in page for cell in line)
        assert all(word in said for cell in line for word in cell.split())
    drawn = json.loads((folder / "scores.json").read_text())
    marks = [point["system"] for point in drawn if point["panel"].startswith("Words and vectors")]
    of_one = ["one", "BM25 + alpha one", "ranks of BM25 and one"]
    assert marks == ["BM25", *of_one, *(name.replace("one", "two") for name in of_one)]
    (mark,) = (point for point in drawn if point["system"] == "ranks of BM25 and one")
    assert {name: mark[name] for name in ("value", "low", "high")} == one["values"]["fused"]
    assert mark["low"] < mark["value"] < mark["high"]
    by_alpha = json.loads((folder / "alpha.json").read_text())
    assert (folder / "alpha.png").stat().st_size > 10_000
    curve = {
        str(mark["x"] or 0.0): mark["values"][0] for mark in by_alpha if mark["curve"] != "two"
    }
    assert curve == {alpha: 100 * value for alpha, value in one["curve"].items()}
    assert [mark["arm"] for mark in by_alpha].count("BM25") == 1
    assert ran(config) == []
    assert "score_fusion" not in ran(asked(files, "one", tasks=["cranfield"]))


def fusion(*gains: tuple[float, float]) -> Fusion:
    """Rank fusion over BM25 and over the encoder, by the bounds of its gains; BM25 is ahead."""
    values = {"bm25": 0.5, "encoder": 0.4, "rescored": 0.5, "fused": 0.5}
    bounds = zip(("bm25", "encoder"), gains, strict=True)
    of_fused = {alone: Estimate(value=0, low=low, high=high) for alone, (low, high) in bounds}
    return Fusion(
        measure="nDCG@10",
        alpha=1,
        curve={1: 0.5},
        queries=9,
        values={name: Estimate(value=one, low=0, high=1) for name, one in values.items()},
        gains={"rescored": of_fused, "fused": of_fused},
    )


@pytest.mark.parametrize(
    ("gains", "better"),
    [
        (((0.1, 0.2), (0.1, 0.3)), "fused"),
        (((-0.1, 0.2), (0.1, 0.3)), None),
        (((-0.2, -0.1), (0.1, 0.3)), "bm25"),
        (((-0.1, 0.1), (-0.3, -0.1)), "encoder"),
        (((-0.2, -0.1), (-0.3, -0.1)), "alone"),
    ],
)
def test_both_together_are_better_where_they_beat_either_alone(gains, better: str | None):
    assert fusion(*gains).better("fused") == better


def test_a_fusion_that_is_refused_is_told_and_no_empty_table_stands_for_it(
    files: Path, tmp_path: Path, capsys
):
    """Of one query, no other is left to choose alpha."""
    write_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\t1")
    config = asked(files, "one", data=None, tasks=[], beir=[str(tmp_path)], fusion=True)
    board = board_of(config)
    assert len(cells_of(board)) == len(FIXED) + 1
    assert board.fusions == {}
    (where,) = board_json(board)["refused"]
    assert where == f"{tmp_path.name}, one with BM25"
    said = shown(capsys, *scoreboard_tables(board))
    assert f"{where}: E502" in said
    assert "Words and vectors together" not in said
    assert exit_code(board) == 3
