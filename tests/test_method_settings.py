"""Settings of the methods: each default explained, each mistake named, each preset whole."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

import sentemb_core
from sentemb_core.configs import TrainingConfig
from sentemb_core.method_settings import (
    METHOD_NAMES,
    PRESETS,
    RUN_PRESETS,
    AnyMethod,
    HiCL,
    preset_of,
)
from sentemb_core.methods.catalogue import CONTINUING, RECIPES
from sentemb_core.methods.listing import LISTING

every_method = pytest.mark.parametrize("settings", get_args(AnyMethod), ids=METHOD_NAMES)
every_preset = pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, named in PRESETS.items() for name in named]
)


def test_every_method_has_settings_and_every_settings_a_method():
    assert sorted(METHOD_NAMES) == sorted(entry.name for entry in LISTING)
    assert sorted(METHOD_NAMES) == sorted([*RECIPES, *CONTINUING])
    assert len(set(METHOD_NAMES)) == len(METHOD_NAMES)


@every_method
def test_a_method_says_what_it_is_and_which_card_has_its_sources(settings):
    assert re.search(r"^.{20,}\((cards? )?1\.\d+", settings.__doc__)


@every_method
def test_every_default_is_explained(settings):
    unexplained = [name for name, field in settings.model_fields.items() if not field.description]
    assert unexplained == ["name"]


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
        assert getattr(config.method, key) == value


@every_preset
def test_a_preset_changes_something(method, name):
    assert TrainingConfig.model_validate(preset_of(method, name)) != TrainingConfig(method=method)


def test_presets_are_of_methods_there_are():
    assert PRESETS.keys() <= set(METHOD_NAMES)


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


def test_every_method_has_a_preset_or_its_entry_says_why_there_is_none():
    without = {
        name for name, text in entries_of_the_index().items() if "there is no preset" in text
    }
    assert set(METHOD_NAMES) - set(PRESETS) == without


def test_presets_of_a_run_have_names_of_their_own():
    for method, presets in RUN_PRESETS.items():
        assert not presets.keys() & PRESETS[method].keys()


def test_an_unknown_preset_is_an_error():
    with pytest.raises(KeyError):
        preset_of("simcse", "nature")


def test_the_shares_of_hicl_leave_something_to_its_base():
    with pytest.raises(ValidationError, match="alpha and beta are shares"):
        HiCL(alpha=0.7, beta=0.4)
