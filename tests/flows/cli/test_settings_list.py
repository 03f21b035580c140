"""`python -m flows settings` lists every setting of a run, as `--set` takes it."""

import json

import pytest

from flows.cli.options import SETTINGS, RunOptions
from flows.cli.settings import AnyRun, by_path, settings
from flows.cli.settings_list import Setting, settings_in, value_of
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.store.stages import flat
from sentemb_core.types import Json

RUNS: dict[str, Json] = {
    "rounds": {"initialiser": "conpono"},
    "cycles": {"cycles": 2},
    "fine_tune": {"method": "fine_tune"},
    "hicl": {"method": "hicl", "encoder": "minilm", "initialiser": "condenser"},
}
FROM_EPOCHS = ("steps", "evaluate_every", "patience")


def run_of(**options: object) -> AnyRun:
    return settings(None, {"corpus.source": "docs.jsonl"} | by_path(options), [])


def listed(run: AnyRun) -> dict[str, Setting]:
    return {setting.path: setting for setting in settings_in(run)}


def test_every_option_of_a_run_sets_a_setting():
    assert list(vars(RunOptions())) == list(SETTINGS)


@pytest.mark.parametrize("options", RUNS.values(), ids=[*RUNS])
def test_every_value_of_a_run_is_listed(options: Json):
    run = run_of(**options)
    values = {
        path.removesuffix(".name") if path.endswith("method.name") else path: value
        for path, value in flat(run.model_dump(mode="json")).items()
    }
    assert {path: setting.value for path, setting in listed(run).items()} == values


@pytest.mark.parametrize("options", RUNS.values(), ids=[*RUNS])
def test_every_listed_value_can_be_set(options: Json):
    run = run_of(**options)
    fine_tuned = {"fine_tuning"} | ({"training"} if options.get("method") == "fine_tune" else set())
    unused = {f"{part}.{name}" for part in fine_tuned for name in FROM_EPOCHS}
    overrides = [
        f"{path}={value_of(setting)}" for path, setting in listed(run).items() if path not in unused
    ]
    assert settings(None, {}, overrides) == run


def test_every_setting_is_explained():
    for method in METHOD_NAMES:
        settings = listed(run_of(method=method, encoder="minilm"))
        assert [path for path, setting in settings.items() if not setting.meaning.strip()] == []


def test_types_and_choices_come_from_the_schema():
    run = listed(run_of(method="hicl", encoder="minilm"))
    assert run["training.chunk"].type == "integer or null"
    assert run["training.method.base.name"].choices == ["esimcse", "simcse", "sncse"]
    assert run["annotation.clustering"].choices == ["partition", "kmeans"]
    assert run["training.steps"].option == "--steps"


def test_a_path_narrows_the_table(call):
    code, out, errors = call("settings", "annotation")
    assert (code, errors) == (0, "")
    assert "annotation.top_k" in out
    assert "training.steps" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_a_program_reads_the_settings_of_the_asked_run(call):
    code, out, _ = call("settings", "training", "--json", "--encoder", "minilm", "--steps", "7")
    rows = {row["path"]: row for row in json.loads(out)}
    assert (code, rows["training.steps"]["value"], rows["training.batch_size"]["value"]) == (
        0,
        7,
        64,
    )
    assert all(path.startswith("training.") for path in rows)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("trainin", ["'training'"]),
        ("training.stps", ["'training.steps'"]),
        ("chunk", ["'training.chunk'", "'initialiser.chunk'"]),
        ("xyz", ["preset", "corpus", "annotation"]),
        ("cycles.patience", ["--cycles"]),
        ("rounds --method simcse", ["--method infocse_idc"]),
        ("training --method simcsee", ["--method", "'simcse'"]),
    ],
)
def test_an_unknown_path_is_answered_with_the_closest(call, arguments: str, values: list[str]):
    code, out, error = call("settings", *arguments.split())
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert [value for value in values if value not in error] == []
