"""Settings of the methods: each default explained, each mistake named, each preset whole."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

import sentemb_core
from benchmarks.results_pages import load
from sentemb_core.config.method_list import LISTING, UNTRAINED
from sentemb_core.config.methods import (
    METHOD_NAMES,
    AnyMethod,
    HiCL,
)
from sentemb_core.config.presets import PRESETS, RUN_PRESETS, encoder_of, preset_of
from sentemb_core.config.run import EncoderConfig, LabelsConfig, TrainingConfig
from sentemb_core.evaluation.paper_tables import paper_tables
from sentemb_core.methods.catalogue import CONTINUING, RECIPES, unfit_temperature
from sentemb_core.types import Json

every_method = pytest.mark.parametrize("settings", get_args(AnyMethod), ids=METHOD_NAMES)
every_preset = pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, named in PRESETS.items() for name in named]
)


def test_every_method_has_settings_and_every_settings_a_method():
    assert sorted(METHOD_NAMES) == sorted(entry.name for entry in LISTING)
    assert sorted(METHOD_NAMES) == sorted([*RECIPES, *CONTINUING])
    assert len(set(METHOD_NAMES)) == len(METHOD_NAMES)


@every_method
def test_every_default_is_explained(settings):
    unexplained = [name for name, field in settings.model_fields.items() if not field.description]
    assert unexplained == ["name"]


SOURCE = re.compile(r"\b([Ss]eed 00\d|erratum E\d+|[Pp]aper|code|ORQA|[Oo]urs)\b|\.sh\b")
"""A paper, its code, what docs/errata.md makes of them, or nobody's but our own."""


GOLDEN: dict[str, Json] = json.loads(
    (Path(__file__).parent / "golden" / "method_settings.json").read_text("utf-8")
)
"""Method -> what its papers and codes state, written from them and not from our settings."""


@every_method
def test_a_default_is_what_its_source_states_or_says_that_it_is_ours(settings):
    found = settings().model_dump(mode="json", exclude={"name"})
    stated = GOLDEN[settings.model_fields["name"].default]["defaults"]
    assert {name: found[name] for name in stated} == stated
    told = {name: settings.model_fields[name].description for name in found.keys() - stated}
    assert [name for name, text in told.items() if not re.search(r"\b[Oo]urs\b", text)] == []


CHOSEN = {"chunk", "evaluate_every", "patience"}
"""What no source has to state: the memory of a step, and when it is validated."""


@every_preset
def test_a_preset_is_what_its_source_states(method, name):
    chosen = preset_of(method, name)
    stated = GOLDEN[method]["presets"][name]
    training = TrainingConfig.model_validate(chosen).model_dump(mode="json")
    found = training | training["method"]
    assert {key: found[key] for key in stated} == stated
    assert (chosen | chosen["method"]).keys() <= stated.keys() | CHOSEN | {"method", "name"}


def test_every_preset_that_a_source_states_is_there():
    assert {method: one["presets"].keys() for method, one in GOLDEN.items()} == {
        method: presets.keys() for method, presets in PRESETS.items()
    }


@every_method
def test_a_bare_name_is_the_method_with_its_defaults(settings):
    name = settings.model_fields["name"].default
    assert TrainingConfig(method=name).method == settings()
    assert TrainingConfig(method={"name": name}).method == settings()


@every_method
def test_a_misspelt_key_is_named_with_its_path(settings):
    name = settings.model_fields["name"].default
    with pytest.raises(ValidationError, match=rf"method\.{name}\.temprature\n.*not permitted"):
        TrainingConfig(method={"name": name, "temprature": 0.1})


def test_an_unknown_method_is_told_the_known_ones():
    with pytest.raises(ValidationError, match=r"method\n.*'simsce'.*'simcse'"):
        TrainingConfig(method="simsce")


@every_preset
def test_every_preset_is_a_training_of_its_method(method, name):
    chosen = preset_of(method, name)
    config = TrainingConfig.model_validate(chosen)
    assert config.method.name == method
    for key, value in chosen.items():
        if key != "method":
            assert getattr(config, key) == value
    for key, value in chosen["method"].items():
        found = getattr(config.method, key)
        if isinstance(value, dict):
            found = found.model_dump(include=set(value))
        assert found == value


@every_preset
def test_a_preset_changes_something(method, name):
    assert TrainingConfig.model_validate(preset_of(method, name)) != TrainingConfig(method=method)


@every_preset
def test_the_temperature_of_a_preset_goes_with_its_similarity(method, name):
    similarity = encoder_of(method, name).get("similarity", "cosine")
    chosen = TrainingConfig.model_validate(preset_of(method, name)).method
    assert unfit_temperature(chosen, similarity) == ""


@every_preset
def test_a_preset_asks_no_static_encoder_for_a_pooling_that_it_has_not(method, name):
    pooling = EncoderConfig.model_validate(encoder_of(method, name)).pooling
    static = next(entry.takes_static for entry in LISTING if entry.name == method)
    assert pooling in (None, "mean") or not static


@pytest.mark.parametrize(
    ("method", "name", "asked"),
    [
        ("simcse", "mlm", {"pooling": "cls_before_pooler", "max_length": 32}),
        ("infocse_aux", "code", {"pooling": "cls_before_pooler", "max_length": 32}),
        ("clm_autoencoder", "paper", {"pooling": "mean", "max_length": 32}),
        ("clm_autoencoder", "tsdae", {"pooling": "cls_before_pooler"}),
        ("consert", "code", {"pooling": "mean", "max_length": 64}),
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
def test_a_preset_asks_of_the_encoder_what_its_source_says(method, name, asked):
    assert encoder_of(method, name) == asked


def test_self_training_ends_after_20_000_steps_without_growth_of_at_most_200_000():
    paper = TrainingConfig.model_validate(preset_of("infocse_idc", "paper"))
    assert paper.steps == 200_000
    assert paper.evaluate_every * paper.patience == 20_000


def test_presets_are_of_methods_there_are():
    assert PRESETS.keys() <= set(METHOD_NAMES)


def test_over_sncse_hicl_has_the_prompt_that_its_paper_quotes():
    method = TrainingConfig.model_validate(preset_of("hicl", "over_sncse")).method
    for before in (method.base.before, method.base.before_positive):
        told = f"{before} x {method.base.behind} [MASK]{method.base.end}"
        assert told == "The sentence of x means [MASK]"


def test_fine_tuning_has_its_papers_batch_epochs_and_patience():
    chosen = TrainingConfig.model_validate(preset_of("fine_tune", "paper"))
    assert (chosen.batch_size, chosen.method.temperature) == (64, 1)
    assert (LabelsConfig().epochs, LabelsConfig().patience) == (20, 2)


@pytest.mark.parametrize("method", PRESETS)
def test_every_method_with_presets_has_the_papers(method):
    assert "paper" in PRESETS[method]


INDEX = Path(sentemb_core.__file__).parent / "methods" / "README.md"


def entries_of_the_index() -> dict[str, str]:
    """Method -> what the paper index says of it."""
    _, *entries = re.split(r"^### `", INDEX.read_text("utf-8"), flags=re.MULTILINE)
    return dict(entry.split("`\n", 1) for entry in entries)


def test_every_method_has_its_entry_in_the_paper_index():
    assert sorted(entries_of_the_index()) == sorted(METHOD_NAMES)


UNTRAINED_ENTRY = re.compile(r"^- \*\*(.+?)\*\*: .+ (The paper: .+)$", re.MULTILINE)
"""What it is, and where it quotes numbers."""


def untrained_entries() -> dict[str, str]:
    """What needs no gradient -> the end of its entry in the paper index."""
    section = INDEX.read_text("utf-8").partition("\n## Without a gradient\n")[2]
    return dict(UNTRAINED_ENTRY.findall(section))


def test_all_that_needs_no_gradient_has_its_entry_in_the_paper_index():
    assert untrained_entries().keys() == UNTRAINED.keys()


PAPERS = ("mutual", "infocse", "product_thesis", "declutr", "hicl")
QUOTED = re.compile(r"([\w@ -]+?) ([\d.]+) \(`(.+?)`, ([\w.-]+)\)")
"""Column, number, row and table."""


def end_of(name: str) -> str:
    """The last line of a method's entry, or the end of its one line."""
    if name in UNTRAINED:
        return untrained_entries()[name]
    return entries_of_the_index()[name].partition("\n## ")[0].rstrip().splitlines()[-1]


def quoted(name: str, told: str) -> list[tuple[str, str, str, str]]:
    """What an entry quotes behind `The paper` or behind `Ours`."""
    line = end_of(name)
    parts = re.fullmatch(r"(The paper)[^:]*: (.+)\. (Ours): (.+)\.", line)
    assert parts, f"{name} ends in `The paper: ... Ours: ...`, found {line[:60]!r}"
    text = parts[parts.groups().index(told) + 2]
    found = [QUOTED.fullmatch(one) for one in text.split("; ")]
    assert all(found), f"{name}: {text}"
    return [one.groups() for one in found if one]


def measured(column: str, row: str, table: str) -> str:
    """A cell of the tables in results/, without deviation and the paper's number."""
    id = {"methods-small": "methods-small blog_usgov transformer"}.get(table, table)
    [found] = [one for name in ("methods", *PAPERS) for one in load(name) if one.id == id]
    place, *_ = [n for n, head in enumerate(found.head()) if f"{head} ".startswith(f"{column} ")]
    [line] = [line for line in found.lines() if row in line[: len(found.pivot.rows)]]
    return line[place].split(" ")[0]


@pytest.mark.parametrize("name", [*METHOD_NAMES, *UNTRAINED])
def test_the_paper_index_says_what_a_paper_promises(name):
    for column, number, row, table in quoted(name, "The paper"):
        assert paper_tables()[table].rows[row][column] == float(number)


@pytest.mark.parametrize("name", [*METHOD_NAMES, *UNTRAINED])
def test_the_paper_index_says_what_was_measured_as_the_results_have_it(name):
    """A table that is measured anew takes its line in the index along."""
    for column, number, row, table in quoted(name, "Ours"):
        assert measured(column, row, table) == number


def test_every_method_has_a_preset_or_its_entry_says_why_there_is_none():
    without = {
        name for name, text in entries_of_the_index().items() if "there is no preset" in text
    }
    assert set(METHOD_NAMES) - set(PRESETS) == without


def sources_of_presets() -> dict[tuple[str, str], str]:
    """(method, preset) -> where its values come from, by the table of the paper index."""
    section = INDEX.read_text("utf-8").partition("\n## Presets\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)
    return {(m, name): source for m, names, source in rows for name in re.findall(r"\w+", names)}


def test_every_preset_has_its_source_in_the_paper_index():
    presets = [*PRESETS.items(), *RUN_PRESETS.items()]
    named = {(method, name) for method, known in presets for name in known}
    assert sources_of_presets().keys() == named


def test_every_method_says_which_data_it_needs():
    """The first words of its line in `sentemb methods`; then its encoder, where not all will do."""
    assert all(entry.needs.partition(";")[0] == entry.data for entry in LISTING)
    assert {entry.data for entry in LISTING} == {
        "sentences",
        "documents",
        "long documents",
        "documents and labelled pairs",
    }
    of_documents = {"infocse_idc", "conpono", "ict", "cpc", "declutr", "fine_tune", "hicl"}
    assert {entry.name for entry in LISTING if "documents" in entry.data} == of_documents


@pytest.mark.parametrize(
    ("method", "stated"),
    [
        ("sncse", {"dtype": "float32", "batch_size": 256}),
        ("hicl", {"dtype": "float32", "batch_size": 256, "chunk": 128}),
        ("condenser", {"warmup": 0.1}),
        ("esimcse", {"method": {"name": "esimcse", "rule": "paper"}}),
    ],
)
def test_the_papers_presets_state_what_a_start_encoders_preset_would_change(method, stated):
    assert stated.items() <= preset_of(method, "paper").items()


def test_presets_of_a_run_have_names_of_their_own():
    for method, presets in RUN_PRESETS.items():
        assert not presets.keys() & PRESETS[method].keys()


def test_an_unknown_preset_is_an_error():
    with pytest.raises(KeyError):
        preset_of("simcse", "nature")


def test_the_margins_of_sncse_leave_room_between_them():
    with pytest.raises(ValidationError, match=r"0\.4 .*0\.3"):
        TrainingConfig(method={"name": "sncse", "alpha": 0.4})
    TrainingConfig(method={"name": "sncse", "alpha": 0.3})


def test_the_shares_of_hicl_leave_something_to_its_base():
    with pytest.raises(ValidationError):
        HiCL(alpha=0.7, beta=0.4)
