"""`python -m flows settings` lists every setting of a run, as `--set` takes it."""

import json

import pytest

from flows.cli.options import SETTINGS, RunOptions
from flows.cli.settings import AnyRun, by_path, settings
from flows.cli.settings_list import Setting, settings_in, value_of
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.errors import UsageError
from sentemb_core.store.stages import flat
from sentemb_core.types import Json

RUNS: dict[str, Json] = {
    "rounds": {"initialiser": "conpono"},
    "cycles": {"cycles": 2},
    "fine_tune": {"method": "fine_tune"},
    "hicl": {"method": "hicl", "encoder": "minilm", "initialiser": "condenser"},
}
FROM_EPOCHS = ("steps", "evaluate_every", "patience")


METHODS: dict[str, Json] = {
    method: {"method": method, "encoder": "minilm"} for method in METHOD_NAMES
}
EVERY = RUNS | METHODS | {"transformer": {"encoder": "transformer"}}


def run_of(**options: object) -> AnyRun:
    return settings(None, {"corpus.source": "docs.jsonl"} | by_path(options), [])


def listed(run: AnyRun) -> dict[str, Setting]:
    return {setting.path: setting for setting in settings_in(run)}


def test_every_option_of_a_run_sets_a_setting():
    assert list(vars(RunOptions())) == list(SETTINGS)


@pytest.mark.parametrize("options", EVERY.values(), ids=[*EVERY])
def test_every_value_of_a_run_is_listed(options: Json):
    run = run_of(**options)
    values = {
        path.removesuffix(".name") if path.endswith("method.name") else path: value
        for path, value in flat(run.model_dump(mode="json")).items()
    }
    found = {path: setting.value for path, setting in listed(run).items()}
    unwritten = {path: 1 for path in found if path.endswith(".devices")}  # defaults without a key
    unwritten |= {"corpus.shard_sentences": None, "workers": 1, "cluster": None}
    assert json.loads(json.dumps(found)) == values | unwritten


@pytest.mark.parametrize("options", EVERY.values(), ids=[*EVERY])
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
    assert "partition, kmeans. " in out
    paths = [line.split()[0] for line in out.splitlines() if line.startswith("annotation")]
    assert paths[:3] == ["annotation.clustering", "annotation.top_k", "annotation.mutual"]


def test_steps_and_labels_depend_on_the_start_encoder_and_on_cycles():
    steps = {
        name: run_of(encoder=name).training.steps for name in ("static", "transformer", "minilm")
    }
    assert steps == {"static": 1200, "transformer": 400, "minilm": 50}
    hicl = [
        run_of(encoder=name, method="hicl").training.steps for name in ("transformer", "minilm")
    ]
    assert hicl == [1600, 50]
    run = listed(run_of())
    assert (run["validation.label_share"].value, run["training.chunk"].value) == (0, None)
    assert listed(run_of(cycles=2))["validation.label_share"].value == 0.5


@pytest.mark.parametrize("arguments", [(), ("training",), ("training.method", "--method", "sncse")])
def test_the_table_fits_a_pipe(call, arguments: tuple[str, ...]):
    code, out, _ = call("settings", *arguments)
    assert (code, max(map(len, out.splitlines())) <= 120) == (0, True)


def test_an_equal_meaning_is_shown_once(call):
    every, one = (call("settings", *path)[1].splitlines() for path in ((), ("initialiser",)))
    assert any("initialiser.chunk" in line for line in one)
    assert any("As initialiser.chunk." in line for line in every)
    assert not any("As " in line for line in one if "initialiser.chunk" in line)


@pytest.mark.parametrize(
    ("override", "command"),
    [
        ("training.stps=3", "settings training"),
        ("stps=3", "settings"),
        ("training.method.x=3", "settings training.method"),
        ("initialiser.method.x=3", "settings initialiser.method"),
    ],
)
def test_an_unknown_setting_is_answered_with_the_command_that_lists_it(override: str, command: str):
    with pytest.raises(UsageError, match=rf"`python -m flows {command}`\)$"):
        settings(None, {"corpus.source": "docs.jsonl"}, [override])


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
        ("xyz", ["preset, seed, name, corpus, encoder, annotation"]),
        ("training.method.segment", ["training.method.segment", "--method"]),
        ("fine_tuning.steps", ["fine_tuning.steps", "--cycles"]),
        ("cycles.patience", ["--cycles"]),
        ("rounds --method simcse", ["--method infocse_idc"]),
        ("training --method simcsee", ["--method", "'simcse'"]),
    ],
)
def test_an_unknown_path_is_answered_with_the_closest(call, arguments: str, values: list[str]):
    code, out, error = call("settings", *arguments.split())
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert error.startswith("error E001 ")
    assert [value for value in values if value not in error] == []
