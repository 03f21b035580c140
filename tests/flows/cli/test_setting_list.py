"""Every setting that a run has is told, as `--set` takes it.

Run: pytest tests/flows/test_setting_list.py
"""

import json
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from flows.cli.setting_list import STARTS, WITHOUT_DEFAULT, Setting, settings_of, value_at
from flows.cli.setting_paths import METHODS, ROUNDS, tables_of
from flows.cli.setting_table import typed
from flows.cli.settings import COUNTED, AnyRun, kind_of, settings
from flows.presets import PRETRAINED
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.config.run import FineTuneRun, InfoCSEIDC, InfoCSEPlus, MethodRun
from sentemb_core.errors import UsageError

KINDS = {ROUNDS: InfoCSEPlus, "fine_tune": FineTuneRun, "conpono": MethodRun, "simcse": MethodRun}
every_kind = pytest.mark.parametrize("method", KINDS)
every_method = pytest.mark.parametrize("method", METHOD_NAMES)


def leaves(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Paths of all settings of a model, a method being one."""
    for name in model.model_fields:
        tables = tables_of(model, name)
        if len(tables) == 1:
            yield from leaves(tables[0], f"{above}{name}.")
        else:
            yield above + name


def told(method: str) -> dict[str, Setting]:
    return {one.path: one for one in settings_of(method) if not one.is_table}


@every_kind
def test_every_setting_of_every_kind_of_run_is_told(method: str):
    assert kind_of({"training": {"method": method}}) in (KINDS[method], InfoCSEIDC)
    part = "training" if method == "fine_tune" else "fine_tuning"
    refused = {f"{part}.{name}" for name in COUNTED}
    whole = {path for path in leaves(KINDS[method]) if path not in refused}
    found = told(method)
    assert {path for path in found if ".method." not in path} == whole | {"preset", "seed"}


@every_method
def test_every_setting_of_a_method_is_told(method: str):
    below = "training.method."
    found = {path.removeprefix(below) for path in told(method) if path.startswith(below)}
    assert {path.split(".")[0] for path in found} == METHODS[method].model_fields.keys() - {"name"}


@every_method
def test_every_setting_and_every_table_is_explained(method: str):
    assert [one.path for one in settings_of(method) if not one.meaning.strip()] == []


def with_its_part(path: str, run: AnyRun) -> list[str]:
    """What a setting of a part wants beside it: that there is one."""
    if path.startswith("initialiser.") and run.initialiser is None:
        return ["initialiser.method=conpono"]
    base = "training.method.base."
    return [f"{base}name=simcse"] if path.startswith(base) else []


def accepted(one: Setting, method: str, start: str) -> None:
    options = {
        "corpus.source": "docs.jsonl",
        "encoder.name": STARTS[start],
        "training.method": method,
    }
    value = one.defaults[start]
    run = settings(None, options, [])
    parts = with_its_part(one.path, run)
    made = settings(None, options, [*parts, f"{one.path}={typed(value)}"])
    if one.path in ("preset", "seed", "encoder.name") or value == "none":
        return
    assert value_at(made, one.path) == value, one.path
    if not parts and "cycles" not in one.runs and not one.path.startswith("annotator."):
        assert value_at(run, one.path) == value, f"{one.path} is not what a run has"


@every_kind
@pytest.mark.parametrize("start", STARTS)
def test_every_default_is_a_runs_own_and_can_be_set(method: str, start: str):
    for one in told(method).values():
        if start in one.defaults and one.path not in WITHOUT_DEFAULT:
            accepted(one, method, start)


@every_method
def test_every_default_of_a_method_is_its_runs_own_and_can_be_set(method: str):
    for path, one in told(method).items():
        if path.startswith("training.method."):
            accepted(one, method, "pretrained")


def test_a_default_that_goes_with_the_start_encoder_is_told_for_each():
    found = told(ROUNDS)
    assert found["training.steps"].defaults == {
        "static": 1200,
        "transformer": 400,
        "pretrained": 50,
    }
    assert found["initialiser.method"].defaults["pretrained"] == "none"
    assert (found["validation.label_share"].default, found["training.chunk"].default) == (0, None)
    assert found["validation.label_share"].with_cycles == 0.5
    assert "static" not in told("simcse")["training.steps"].defaults  # it needs a transformer


def test_a_setting_says_whose_runs_have_it():
    found = told(ROUNDS)
    runs = {
        path: found[path].runs for path in ("labels.count", "annotator.name", "cycles.patience")
    }
    assert runs == {
        "labels.count": "all",
        "annotator.name": "infocse_idc",
        "cycles.patience": "infocse_idc with --cycles (InfoCSE++)",
    }
    assert told("simcse").keys().isdisjoint({"control", "annotator.name", "cycles.patience"})


def test_a_path_narrows_the_table(call, monkeypatch):
    monkeypatch.setitem(PRETRAINED["annotation"], "dtype", "bfloat16")
    code, said, errors = call("settings", "annotation")
    assert (code, errors) == (0, "")
    rows = [line.split()[0] for line in said.splitlines() if line.startswith("annotation")]
    assert rows[:4] == [
        "annotation",
        "annotation.clustering",
        "annotation.top_k",
        "annotation.mutual",
    ]
    assert "training.steps" not in said
    assert "partition, kmeans. " in said
    assert "pretrained: bfloat16" in said


@pytest.mark.parametrize("arguments", [(), ("training",), ("training.method", "--method", "sncse")])
def test_the_table_fits_a_pipe(call, arguments: tuple[str, ...]):
    code, said, _ = call("settings", *arguments)
    assert code == 0
    assert max(map(len, said.splitlines())) <= 120


def test_what_stands_above_is_not_repeated(call):
    assert "As training.chunk." in call("settings")[1]
    assert "gradient cache" in call("settings", "initialiser")[1]


def test_the_settings_are_there_for_programs(call):
    code, said, _ = call("settings", "training", "--json", "--method", "hicl")
    found = {one["path"]: one for one in json.loads(said)}
    assert code == 0
    assert found["training.method.base.name"]["choices"] == ["simcse", "esimcse", "sncse"]
    assert found["training.chunk"]["type"] == "int or null"
    assert found["training.steps"]["option"] == "--steps"
    assert found["training.steps"]["default_by_start_encoder"] == {
        "transformer": 1600,
        "pretrained": 50,
    }
    assert "training" not in found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("trainin", "E001 trainin: there is no such setting; did you mean 'training'"),
        ("training.stps", "did you mean 'training.steps'"),
        ("chunk", "did you mean 'training.chunk' or 'fine_tuning.chunk' or 'initialiser.chunk'?"),
        ("kmeans", "did you mean 'annotation.clustering'?"),
        ("xyz", "there is no such setting; known: preset, seed, name, corpus, encoder, annotation"),
        ("training.method.segment", "infocse_idc has no such setting; a method that has it: --met"),
        ("training.method.name", "E001 training.method.name: there is no such setting; did you me"),
        ("rounds --method simcse", "simcse trains once, and has no such setting; runs of infocse_"),
        ("fine_tuning.steps", "counts in passes over its labels: see `python -m flows settings la"),
        ("training --method simcsee", "--method: there is no 'simcsee'; did you mean 'simcse'?"),
    ],
)
def test_an_unknown_path_is_refused_with_the_closest(call, arguments: str, said: str):
    code, out, errors = call("settings", *arguments.split())
    assert (code, out) == (2, "")
    assert said in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("override", "verb"),
    [
        ("training.stps=3", "(`python -m flows settings training` tells all)"),
        ("stps=3", "(`python -m flows settings` tells all)"),
        ("training.method.x=3", "settings training.method --method infocse_idc` tells all)"),
        ("initialiser.method.x=3", "settings training.method --method conpono` tells all)"),
    ],
)
def test_an_unknown_setting_of_a_run_names_the_verb_that_lists_them(override: str, verb: str):
    with pytest.raises(UsageError) as refused:
        settings(None, {"corpus.source": "docs.jsonl"}, [override])
    assert str(refused.value).endswith(verb)


def test_seeds_that_are_papers_are_told_where_they_are_named(call):
    told = [call("settings", path)[1] for path in ("training.warmup", "training.clip", "rounds")]
    assert ["mutual to 004 are the five papers" in out for out in told] == [False, False, True]
