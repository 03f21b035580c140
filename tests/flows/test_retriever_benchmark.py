"""Retrievers in `benchmark`, `compare` and `evaluate`: their rows, differences and refusals."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from flows.__main__ import app
from flows.benchmark import compare, scoreboard
from flows.benchmark_settings import BenchmarkSettings
from flows.cli.settings import checked_as
from sentemb_core import console
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation import bootstrap
from sentemb_core.retriever.folder import RETRIEVER, TOKEN_MAP, load_retriever, save_retriever
from sentemb_core.retriever.spec import RetrieverSpec
from tasks.benchmark import result_of
from tasks.benchmark_rows import Scoreboard, average_name, averages, board_rows, main_scores
from tasks.benchmark_table import board_json, board_notes, board_tables, write_board
from tasks.evaluations import table_in
from tasks.execution import dry_run, without_prefect
from tasks.registry import register
from tasks.results import ResultRow
from tasks.retriever_systems import vectors_label
from tests.flows.suites import write_beir, write_data, write_encoder
from tests.retriever.made import WHOLE, retriever

TASKS = ["cranfield", "sts12", "tree_depth"]
DENSE = vectors_label("whole")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The suite's data, a BEIR folder, a retriever of all parts, one of words, and an encoder."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("data", "beir"):
        (folder / name).mkdir()
    write_data(folder / "data")
    write_beir(folder / "beir")
    write_encoder(folder / "plain", seed=0)
    save_retriever(retriever(WHOLE), folder / "new", "")
    save_retriever(load_retriever(folder / "new"), folder / "whole", "# whole\n")  # as a run does
    save_retriever(retriever(RetrieverSpec(words="bm25")), folder / "words", "# words\n")
    with (
        mock.patch.dict(os.environ, {"SENTEMB_HOME": str(folder / "home")}),
        mock.patch.object(bootstrap, "RESAMPLES", 200),
    ):
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        yield folder


def asked(files: Path, *models: str, **changes: object) -> BenchmarkSettings:
    settings = {
        "models": [name if name == "BM25" else str(files / name) for name in models],
        "data": str(files / "data"),
        "beir": [str(files / "beir")],
        "tasks": TASKS,
    }
    return checked_as(BenchmarkSettings, settings | changes)


@pytest.fixture(scope="module")
def board(files: Path) -> Scoreboard:
    with without_prefect():
        return scoreboard(asked(files, "whole", "words", "plain"), "a-run")


def values_of(board: Scoreboard) -> dict[tuple[str, str], float]:
    return {(row.task, row.system): row.value or 0.0 for row in main_scores(board_rows(board))}


def rows_of(board: Scoreboard, part: str) -> list[ResultRow]:
    return [row for row in board_rows(board) if row.factors["part"] == part]


def test_a_retriever_stands_beside_its_vectors_and_bm25(board: Scoreboard):
    values = values_of(board)
    for task in ("Cranfield", "beir"):
        assert {system for name, system in values if name == task} == {
            *("BM25", "random", "constant", "whole", DENSE, "words", "plain")
        }
        assert values[task, "words"] == values[task, "BM25"]
    assert values["Cranfield", "whole"] > values["Cranfield", DENSE]
    assert averages(board, main_scores(board_rows(board)), "retrieval").keys() == {*board.columns}
    assert not [one.error for one in board.scores if one.error]


def test_tasks_of_vectors_score_the_root_encoder_and_words_have_no_row(board: Scoreboard):
    values = values_of(board)
    for task in ("STS12", "tree_depth"):
        assert (task, DENSE) not in values
        assert (task, "words") not in values
        assert (task, "whole") in values
    lacking = [(row.system, row.task) for row in rows_of(board, "errors")]
    assert lacking == [("words", "STS12"), ("words", "tree_depth")]
    notes = [note for note in board_notes(board) if note.startswith(("whole is", "words is"))]
    assert len(notes) == 2
    assert all(name in notes[1] for name in ("STS12", "tree_depth"))


def test_differences_to_baselines_are_paired_and_have_a_verdict(board: Scoreboard):
    values = values_of(board)
    rows = rows_of(board, "baselines")
    lines = ["Cranfield", "beir", average_name("retrieval", ["Cranfield", "beir"])]
    assert [(row.task, row.system, row.baseline) for row in rows] == [
        *((line, "whole", rival) for line in lines for rival in ("BM25", DENSE)),
        *((line, "words", "BM25") for line in lines),
    ]
    for row in rows:
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.value <= row.high
        assert row.factors["verdict"] == (
            row.system if row.low > 0 else row.baseline if row.high < 0 else "not decided"
        )
        if row.task in ("Cranfield", "beir"):
            own, other = values[row.task, row.system], values[row.task, row.baseline]
            assert row.value == pytest.approx(own - other)
        if row.system == "words":
            assert (row.value, row.low, row.high) == (0, 0, 0)
    (table,) = [one for one in board_tables(board) if one.id == "baselines"]
    assert len(table.lines()) == len(rows)


def test_an_encoder_beside_a_retriever_has_the_same_digits_as_alone(files: Path, board: Scoreboard):
    with without_prefect():
        alone = scoreboard(asked(files, "plain"), "a-run")
    of_plain = {key: value for key, value in values_of(board).items() if key[1] == "plain"}
    assert of_plain.items() <= values_of(alone).items()
    assert rows_of(alone, "baselines") == []
    assert alone.retrievers == {}


def test_files_name_the_parts(board: Scoreboard, tmp_path: Path):
    folder = tmp_path / "out"
    write_board(board, folder)
    stored = json.loads((folder / "table.json").read_text("utf-8"))
    assert stored == board_json(board)
    assert stored["models"]["words"].keys() == {"model", "retriever", "parts"}
    assert stored["models"]["whole"].keys() == {
        *("model", "encoder", "max_length", "retriever", "parts")
    }
    assert DENSE in (folder / "page.html").read_text("utf-8")


def test_compare_pairs_a_retriever_with_bm25_or_another(files: Path):
    with without_prefect():
        found = compare.fn(asked(files, "words", "BM25", tasks=["cranfield"]))
        two = compare.fn(asked(files, "whole", "plain"))
    for row in rows_of(found, "winners"):
        assert (row.value, row.low, row.high) == (0, 0, 0)
    results = {(one.system, one.task): result_of(ref) for one, ref in two.found("scores")}
    gain = next(row for row in rows_of(two, "winners") if row.task == "Cranfield")
    expected = results["whole", "Cranfield"].value - results["plain", "Cranfield"].value
    assert gain.value == pytest.approx(expected)


def test_retrievers_of_one_encoder_are_two_models(files: Path, tmp_path: Path):
    spec = WHOLE.model_copy(update={"words": None, "tokens": False})
    save_retriever(retriever(spec), tmp_path / "new", "")
    save_retriever(load_retriever(tmp_path / "new"), tmp_path / "other", "# whole\n")
    pair = asked(files, "whole", models=[str(files / "whole"), str(tmp_path / "other")])
    with without_prefect():
        found = compare.fn(pair)
    assert len({one.digest for one in found.encoders.values()}) == 1
    assert not any("one encoder" in note for note in board_notes(found))


@pytest.mark.parametrize("name", ["whole", "words"])
def test_a_registered_version_is_scored_as_its_folder(files: Path, board: Scoreboard, name: str):
    version = register(files / name, name, fingerprint="f1")
    with without_prefect():
        found = scoreboard(asked(files, models=[version.uri], tasks=["cranfield"]), "a-run")
    (label,) = found.retrievers
    assert values_of(found)["Cranfield", label] == values_of(board)["Cranfield", name]
    assert found.retrievers[label] == board.retrievers[name]
    assert found.retrievers[label].retriever == version.artifact


def test_a_report_finds_the_scores_of_its_retriever(board: Scoreboard, tmp_path: Path):
    write_board(board, tmp_path)
    table = table_in(tmp_path)
    assert table
    assert table.label_of(board.retrievers["whole"].retriever) == "whole"
    assert table.label_of(board.encoders["plain"]) == "plain"
    assert table.label_of(board.encoders["whole"]) is None, "its scores are the retriever's"


def test_dry_run_has_the_stages_of_a_retriever(files: Path, home: Path):
    with dry_run() as plan:
        scoreboard(asked(files, "whole", "words"), "plan")
    stages = {one.stage for one in plan.statuses}
    assert {"kept_retriever", "score_retriever", "kept_encoder", "score_similarity"} <= stages
    assert "encode_collection" not in stages
    assert not plan.incomplete


@pytest.mark.parametrize(
    ("verb", "code"), [("benchmark", "E100"), ("compare", "E100"), ("evaluate", "E100")]
)
@pytest.mark.parametrize("broken", ["form", "part"])
def test_a_broken_retriever_is_refused(
    files: Path, tmp_path: Path, capsys, verb: str, code: str, broken: str
):
    folder = tmp_path / "broken"
    save_retriever(retriever(WHOLE), folder, "# broken\n")
    if broken == "form":
        stated = json.loads((folder / RETRIEVER).read_text("utf-8"))
        (folder / RETRIEVER).write_text(json.dumps(stated | {"format": 2}), "utf-8")
    else:
        (folder / TOKEN_MAP).unlink()
    source = tmp_path / "documents.jsonl"
    source.write_text("".join(f'{{"id": "{k}", "sentences": ["w{k}", "w5"]}}\n' for k in range(9)))
    arguments = {
        "benchmark": [str(folder), "--tasks", "cranfield", "--data", str(files / "data")],
        "compare": [str(folder), "BM25", "--tasks", "cranfield", "--data", str(files / "data")],
        "evaluate": [str(source), "--model", str(folder), "--id-column", "id"],
    }
    if broken == "form" or verb == "evaluate":
        assert console.run(app, [verb, *arguments[verb]]) == 3
        lines = capsys.readouterr().err.splitlines()  # the log may come first
        assert [line.split()[1] for line in lines if line.startswith("error ")] == [code]
        return
    config = asked(files, models=[str(folder), "BM25"] if verb == "compare" else [str(folder)])
    with without_prefect(), pytest.raises(BadDataError, match=TOKEN_MAP):
        compare.fn(config) if verb == "compare" else scoreboard(config, "a-run")


@pytest.mark.parametrize("name", ["whole", "words"])
def test_evaluate_scores_a_folder_in_both_command_lines(
    files: Path, tmp_path: Path, capsys, name: str
):
    from sentemb_core.cli import app as core

    source = tmp_path / "documents.jsonl"
    rows = (
        {"id": f"d{k}", "title": f"w{4 + k} w5", "sentences": [f"w{4 + k}", f"w{4 + k} w6"]}
        for k in range(12)
    )
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    columns = [
        "--id-column",
        "id",
        "--sentences-column",
        "sentences",
        "--counterpart-column",
        "title",
    ]
    model = str(files / name)
    assert console.run(core, ["evaluate", model, str(source), *columns, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    systems = ["this retriever", "BM25", *(["vectors alone"] * (name == "whole"))]
    assert [*found["systems"]] == systems
    arguments = ["evaluate", str(source), "--model", model, *columns]
    assert console.run(app, [*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert console.run(app, arguments) == 0
