"""Settings and presets of the methods: their sources, and their entries in the index of papers."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

import sentemb_core
from benchmarks.results_pages import load
from sentemb_core.config.method_list import UNTRAINED, needs
from sentemb_core.config.methods import METHOD_NAMES, METHODS, AnyMethod, HiCL
from sentemb_core.config.presets import PRESETS, RUN_PRESETS, encoder_of, preset_of
from sentemb_core.config.run import EncoderConfig, LabelsConfig, TrainingConfig
from sentemb_core.evaluation.paper_tables import paper_tables
from sentemb_core.methods.catalogue import RECIPES, unfit_temperature
from sentemb_core.types import Json

every_preset = pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, named in PRESETS.items() for name in named]
)

GOLDEN: dict[str, Json] = json.loads(
    (Path(__file__).parents[1] / "golden" / "method_settings.json").read_text("utf-8")
)
"""Method -> the values in its papers and codes, written from them and not from our settings."""

CHOSEN = {"chunk", "evaluate_every", "patience"}
"""No source states the memory of a step, nor when it is validated."""


def test_settings_recipes_and_listing_name_the_same_methods():
    assert sorted(METHOD_NAMES) == sorted(RECIPES)
    assert len(METHODS) == len(get_args(AnyMethod))


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_default_is_explained_and_is_its_sources_value_or_marked_as_ours(name):
    settings = METHODS[name]
    defaults = settings().model_dump(mode="json", exclude={"name"})
    stated = GOLDEN[name]["defaults"]
    assert {key: defaults[key] for key in stated} == stated
    assert all(settings.model_fields[key].description for key in defaults)
    own = {key: settings.model_fields[key].description for key in defaults.keys() - stated}
    assert [key for key, text in own.items() if not re.search(r"\b[Oo]urs\b", text)] == []
    assert TrainingConfig(method=name).method == settings()
    assert TrainingConfig(method={"name": name}).method == settings()


@every_preset
def test_a_preset_is_a_training_with_the_values_of_its_source(method, name):
    chosen = preset_of(method, name)
    config = TrainingConfig.model_validate(chosen)
    assert config != TrainingConfig(method=method)
    training = config.model_dump(mode="json")
    values = training | training["method"]
    assert values["name"] == method
    stated = GOLDEN[method]["presets"][name]
    assert {key: values[key] for key in stated} == stated
    assert {key: values[key] for key in CHOSEN & chosen.keys()} == {
        key: chosen[key] for key in CHOSEN & chosen.keys()
    }
    assert (chosen | chosen["method"]).keys() <= stated.keys() | CHOSEN | {"method", "name"}

    encoder = EncoderConfig.model_validate(encoder_of(method, name))
    assert unfit_temperature(config.method, encoder.similarity or "cosine") == ""
    static = METHODS[method].encoder == "any"
    assert encoder.pooling in (None, "mean") or not static


def test_every_preset_of_a_source_exists():
    assert {method: golden["presets"].keys() for method, golden in GOLDEN.items()} == {
        method: presets.keys() for method, presets in PRESETS.items()
    }
    assert all("paper" in presets for presets in PRESETS.values())
    for method, presets in RUN_PRESETS.items():
        assert not presets.keys() & PRESETS[method].keys()
    with pytest.raises(KeyError):
        preset_of("simcse", "nature")


@pytest.mark.parametrize(
    ("method", "name", "encoder"),
    [
        ("simcse", "mlm", {"pooling": "cls_before_pooler", "max_length": 32}),
        ("infocse_aux", "code", {"pooling": "cls_before_pooler", "max_length": 32}),
        ("clm_autoencoder", "paper", {"pooling": "mean", "max_length": 32}),
        ("clm_autoencoder", "tsdae", {"pooling": "cls_before_pooler"}),
        ("consert", "paper", {"pooling": "mean", "max_length": 64}),
        ("ict", "paper", {"similarity": "dot"}),
        ("ict", "orqa", {"similarity": "dot", "max_length": 64}),
        ("mirror_bert", "code", {"pooling": "mean", "max_length": 50}),
        ("sncse", "paper", {"max_length": 32}),
        ("diffcse", "paper", {"pooling": "cls_before_pooler", "max_length": 32}),
        ("bce", "paper", {"pooling": "mean", "max_length": 32}),
        ("infocse_idc", "paper", {"similarity": "dot", "max_length": 32}),
        ("hicl", "over_esimcse", {"pooling": "cls_before_pooler"}),
        ("hicl", "over_sncse", {}),
        ("fine_tune", "paper", {"similarity": "dot", "max_length": 32}),
    ],
)
def test_a_preset_has_the_encoder_of_its_source(method, name, encoder):
    assert encoder_of(method, name) == encoder


def test_hicl_over_sncse_has_the_prompt_that_hicl_quotes():
    method = TrainingConfig.model_validate(preset_of("hicl", "over_sncse")).method
    for before in (method.base.before, method.base.before_positive):
        prompt = f"{before} x {method.base.behind} [MASK]{method.base.end}"
        assert prompt == "The sentence of x means [MASK]"


def test_fine_tuning_has_the_batch_epochs_and_patience_of_mutual():
    chosen = TrainingConfig.model_validate(preset_of("fine_tune", "paper"))
    assert (chosen.batch_size, chosen.method.temperature) == (64, 1)
    assert (LabelsConfig().epochs, LabelsConfig().patience) == (20, 2)


def test_self_training_ends_20_000_steps_after_the_last_gain():
    paper = TrainingConfig.model_validate(preset_of("infocse_idc", "paper"))
    assert paper.steps == 200_000
    assert paper.evaluate_every * paper.patience == 20_000


def refusal_of(**settings: Json) -> dict[str, object]:
    """Return the one error of the settings of a method."""
    with pytest.raises(ValidationError) as refusal:
        TrainingConfig(method=settings)
    [error] = refusal.value.errors()
    return error


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_misspelt_setting_is_refused_at_its_path(name):
    error = refusal_of(name=name, temprature=0.1)
    assert (error["type"], error["loc"]) == ("extra_forbidden", ("method", name, "temprature"))


def test_a_misspelt_method_is_refused_with_all_names():
    with pytest.raises(ValidationError, match=r"'simsce'.*'simcse'") as refusal:
        TrainingConfig(method="simsce")
    assert [error["loc"] for error in refusal.value.errors()] == [("method",)]


@pytest.mark.parametrize(
    "name", ["condenser", "infocse_aux", "diffcse", "rtd_mlm", "mlm_autoencoder"]
)
def test_a_masking_method_needs_a_rate_above_zero(name):
    assert refusal_of(name=name, mask_rate=0.0)["loc"] == ("method", name, "mask_rate")


def test_margins_shares_and_contexts_out_of_range_are_refused():
    for name in ("ict", "cpc"):
        assert refusal_of(name=name, context_tokens=15)["loc"] == ("method", name, "context_tokens")
    for name, setting, value, kind in (
        *((name, "temperature", 0, "greater_than") for name in ("ict", "cpc", "conpono", "bce")),
        ("bce", "temperature", -0.05, "greater_than"),
        ("consert", "epsilon", 0.0, "greater_than"),
        ("consert", "rate", -0.1, "greater_than_equal"),
        ("consert", "rate", 1.0, "less_than"),
        ("mirror_bert", "drophead", 1.0, "less_than"),
        ("mirror_bert", "span", -1, "greater_than_equal"),
        ("clm_autoencoder", "noise", 1.0, "less_than"),
        ("hicl", "segment", 3, "greater_than_equal"),
        ("declutr", "anchors", 0, "greater_than_equal"),
        ("declutr", "positives", 0, "greater_than_equal"),
    ):
        error = refusal_of(name=name, **{setting: value})
        assert (error["type"], error["loc"]) == (kind, ("method", name, setting))
    assert re.search(r"alpha 0\.4 and beta 0\.3;", refusal_of(name="sncse", alpha=0.4)["msg"])
    TrainingConfig(method={"name": "sncse", "alpha": 0.3})
    with pytest.raises(ValidationError, match=r"alpha \+ beta .* 0\.7 \+ 0\.4;"):
        HiCL(alpha=0.7, beta=0.4)


def test_the_listing_names_the_data_that_a_method_needs():
    assert all(needs(entry).partition(";")[0] == entry.data for entry in METHODS.values())
    assert {entry.data for entry in METHODS.values()} == {
        "sentences",
        "documents",
        "long documents",
        "documents and labelled pairs",
    }
    of_documents = {"infocse_idc", "conpono", "ict", "cpc", "declutr", "fine_tune", "hicl"}
    assert {name for name, entry in METHODS.items() if "documents" in entry.data} == of_documents


INDEX = (Path(sentemb_core.__file__).parent / "methods" / "README.md").read_text("utf-8")
UNTRAINED_ENTRY = re.compile(r"^- \*\*(.+?)\*\*: .+ (The paper: .+)$", re.MULTILINE)
PAPERS = ("mutual", "infocse", "product_thesis", "declutr", "hicl")
QUOTED = re.compile(r"([\w@ -]+?) ([\d.]+) \(`(.+?)`, ([\w.-]+)\)")
"""Column, number, row and table."""


def entries_of_methods() -> dict[str, str]:
    _, *entries = re.split(r"^### `", INDEX, flags=re.MULTILINE)
    return dict(entry.split("`\n", 1) for entry in entries)


def scores_of_methods() -> dict[str, str]:
    """Method, also an untrained one -> the line of its entry with the quoted scores."""
    trained = {
        name: text.partition("\n## ")[0].rstrip().splitlines()[-1]
        for name, text in entries_of_methods().items()
    }
    untrained = INDEX.partition("\n## Without a gradient\n")[2]
    return trained | dict(UNTRAINED_ENTRY.findall(untrained))


def measured(column: str, row: str, table: str) -> str:
    """A cell of the tables in results/, without deviation and the paper's number."""
    id = {"methods-small": "methods-small blog_usgov transformer"}.get(table, table)
    [pivoted] = [one for name in ("methods", *PAPERS) for one in load(name) if one.id == id]
    place, *_ = [n for n, head in enumerate(pivoted.head()) if f"{head} ".startswith(f"{column} ")]
    [line] = [line for line in pivoted.lines() if row in line[: len(pivoted.pivot.rows)]]
    return line[place].split(" ")[0]


def test_the_scores_in_the_index_are_those_of_papers_and_results():
    """A line has the form `The paper: SCORE; SCORE. Ours: SCORE; SCORE.` in the index."""
    lines = scores_of_methods()
    assert sorted(lines) == sorted([*METHOD_NAMES, *UNTRAINED])
    for name, line in lines.items():
        parts = re.fullmatch(r"The paper[^:]*: (.+)\. Ours: (.+)\.", line)
        assert parts, name
        theirs, ours = (
            [QUOTED.fullmatch(score) for score in part.split("; ")] for part in parts.groups()
        )
        for score in theirs:
            assert score, name
            column, number, row, table = score.groups()
            assert paper_tables()[table].number(row, column) == float(number), name
        for score in ours:
            assert score, name
            column, number, row, table = score.groups()
            assert measured(column, row, table) == number, name


def test_every_preset_has_its_source_in_the_index():
    section = INDEX.partition("\n## Presets\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", section, flags=re.MULTILINE)
    named = {(method, name) for method, names in rows for name in re.findall(r"\w+", names)}
    presets = [*PRESETS.items(), *RUN_PRESETS.items()]
    assert named == {(method, name) for method, known in presets for name in known}
    without = {name for name, text in entries_of_methods().items() if "is no preset" in text}
    assert set(METHOD_NAMES) - set(PRESETS) == without


@pytest.mark.parametrize(
    ("method", "stated"),
    [
        ("sncse", {"dtype": "float32", "batch_size": 256}),
        ("hicl", {"dtype": "float32", "batch_size": 256, "chunk": 128}),
        ("condenser", {"warmup": 0.1}),
        ("esimcse", {"method": {"name": "esimcse", "rule": "paper"}}),
    ],
)
def test_presets_of_papers_also_state_values_of_the_default(method, stated):
    assert stated.items() <= preset_of(method, "paper").items()
