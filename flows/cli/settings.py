"""The settings of a run, in four layers; a later layer wins.

1. default: `sentemb_core/config/run.py`, and `flows/defaults.py` for the start encoder.
2. preset: named settings of the method, from its paper or its code (`--preset`).
3. file: a TOML file, or the config.json of a run (`--config`).
4. command line: options and `--set a.b=value`.

A preset named on the command line comes after the file, because a config.json states every setting.
"""

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flows.cli.options import SETTINGS
from flows.cli.settings_errors import (
    ROUNDS,
    innermost,
    is_batch_of_one,
    message,
    option_of,
)
from flows.defaults import default_settings, stated, table_at, with_full_paths, with_name
from flows.presets import as_table, merged
from sentemb_core.config.methods import METHODS, temperature_of
from sentemb_core.config.presets import PRESETS, RUN_PRESETS, encoder_of, preset_of
from sentemb_core.config.run import (
    FineTuneRun,
    InfoCSEIDC,
    InfoCSEPlus,
    MethodRun,
    TrainingConfig,
)
from sentemb_core.errors import NoNegativesError, UsageError
from sentemb_core.formats import nearest
from sentemb_core.options import CorpusOptions
from sentemb_core.types import Json

Model = TypeVar("Model", bound=BaseModel)

DEEPEST = 20
"""Most levels of settings; the deepest one has five."""

MOST_BYTES = 1 << 20
"""Bytes read of a file of settings; a config.json has some kilobytes."""

SURROGATE = re.compile("[\ud800-\udfff]")

AnyRun = InfoCSEIDC | InfoCSEPlus | FineTuneRun | MethodRun

CONTRASTING = frozenset(
    name
    for name, model in METHODS.items()
    if "temperature" in model.model_fields and temperature_of(model()) is not None
)
"""Methods that divide the encoder's similarity by a temperature of their own."""

HEAD = ("skip_from", "head_layers")
"""Settings of a Condenser head, shared by the Condenser stage and the method that continues."""

UNUSED_BY_FINE_TUNING = ("steps", "evaluate_every", "patience")
"""Settings of a training that fine-tuning derives from the epochs of its labels."""

SEEDED = ("encoder", "annotation", "training")
SEEDED_IF_PRESENT = ("annotator", "initialiser", "fine_tuning")


def settings(file: Path | None, options: Mapping[str, Any], overrides: Sequence[str]) -> AnyRun:
    """Return the run that the four layers describe.

    The method decides the kind of run. `initialiser.method = none` removes the initialiser. A run
    without a name takes the name of its corpus.

    Args:
        file: TOML file or config.json.
        options: Paths of settings and their values; None: the option is absent.
        overrides: `--set` arguments, as PATH=VALUE.

    Raises:
        UsageError: an unreadable file, or an unknown or invalid setting (with its path).
    """
    given = {path: value for path, value in options.items() if value is not None}
    given |= dict(map(parse_override, overrides))
    file_layer = read_settings(file) if file else {}
    command_layer = nested(given)
    asked = merged(file_layer, command_layer)
    method, preset_name = method_of(asked), asked.get("preset")
    default_layer = default_settings(run_kind(asked), asked)
    preset_layer: Json = {}
    if preset_name is not None and isinstance(method, str):
        preset_layer = named_preset(method, str(preset_name))
    preset_wins = "preset" in command_layer
    top_layer = command_layer if preset_wins else asked
    if preset_layer or "method" in table_at(asked, "training"):
        set_at(top_layer, "training.method.name", method)
    below_preset = file_layer if preset_wins else {}
    tree = reduce(merged, (default_layer, below_preset, preset_layer, top_layer))

    if preset_layer:
        tree = share_settings(tree)
    seed = tree.pop("seed", None)
    tree.pop("preset", None)
    if seed is not None:
        tree = seeded(tree, seed, command_layer if "seed" in given else asked)
    tree = with_bounded_initialiser(without_initialiser(tree, asked, given), asked, given)
    run = checked(with_name(with_full_paths(tree)))
    require_effect(run, given)
    return run


def by_path(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `RunOptions` as paths of settings."""
    return {SETTINGS[name]: value for name, value in options.items()}


def by_name(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line by their Python names, as paths of settings.

    Raises:
        UsageError: an unknown name.
    """
    columns = {field.name: f"corpus.{field.name}" for field in fields(CorpusOptions)}
    known = dict(SETTINGS) | columns
    if unknown := [name for name in options if name not in known]:
        raise UsageError(
            f"`run` has no option {unknown[0]!r}{nearest(unknown[0], known)} "
            'Other settings go by their path: settings={"training.steps": 50}.'
        )
    return {known[name]: value for name, value in options.items()}


# The layers


def named_preset(method: str, name: str) -> Json:
    """Settings of a preset: of the training and the encoder, or of the whole run.

    Raises:
        UsageError: the method has no such preset.
    """
    known: Json = {
        key: {"training": preset_of(method, key), "encoder": encoder_of(method, key)}
        for key in PRESETS.get(method, {})
    }
    known |= RUN_PRESETS.get(method, {})
    if name not in known:
        raise UsageError(
            f"preset: {method} has no preset {name!r}. Known: {', '.join(known) or 'none'}."
        )
    return known[name]


def read_settings(file: Path) -> Json:
    """Settings of a TOML file, or of the config.json beside a report.

    Raises:
        UsageError: the file is absent or unreadable, or holds no table.
    """
    try:
        with file.open("rb") as opened:  # a device never ends
            text = opened.read(MOST_BYTES).decode()
        tree = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(f"There is no settings file {file}. Check --config.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"Cannot read settings from {file}: {error}. Use TOML.") from None
    if not isinstance(tree, dict):
        raise UsageError(f"Cannot read settings from {file}: it holds no table. Use TOML.")
    require_plain(tree)
    return tree


def require_plain(tree: Json) -> None:
    """Check that settings are not nested deeper than any setting is, and hold only text.

    Raises:
        UsageError: tables above `DEEPEST`, NUL, or half a surrogate pair.
    """
    waiting: list[tuple[int, Any]] = [(0, tree)]
    while waiting:
        depth, value = waiting.pop()
        if depth > DEEPEST:
            raise UsageError(f"Settings have at most {DEEPEST} levels of tables; found more.")
        if isinstance(value, dict):
            waiting += [(depth + 1, part) for part in (*value.keys(), *value.values())]
        elif isinstance(value, list):
            waiting += [(depth + 1, part) for part in value]
        elif isinstance(value, str) and ("\0" in value or SURROGATE.search(value)):
            raise UsageError(
                f"Settings are text in UTF-8 without U+0000; found {value!r:.80}. Correct it."
            )


def parse_override(text: str) -> tuple[str, Any]:
    """Path and value of a `--set` argument."""
    path, equals, value = text.partition("=")
    if not (path.strip() and equals):
        raise UsageError(
            f"--set needs PATH=VALUE, found {text!r}. Example: --set training.steps=200."
        )
    parsed = parse_value(value.lstrip())  # a prompt may end in a blank
    if path.count(".") >= DEEPEST:
        raise UsageError(f"The path of a setting has at most {DEEPEST} parts: found {path!r:.80}.")
    require_plain({path.strip(): parsed})
    return path.strip(), parsed


def parse_value(text: str) -> Any:
    """`3`, `0.5`, `true`, `null` and `"quoted"` as in JSON; any other text is a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Rules across tables


def share_settings(tree: Json) -> Json:
    """Copy settings that initialiser and fine-tuning share with the method; explicit ones stay.

    A Condenser stage trains the head that the method then uses. With inner products, every method
    uses the method's temperature: they share its loss (mutual, section 3.3), and a temperature for
    cosines would leave no gradient.
    """
    method = tree["training"]["method"]
    dot = table_at(tree, "encoder").get("similarity") == "dot"
    for part in ("initialiser", "fine_tuning"):
        own = table_at(tree, f"{part}.method")
        shared = HEAD if own.get("name") == "condenser" else ()
        if dot and own.get("name") in CONTRASTING:
            shared = ("temperature",)
        if known := {name: method[name] for name in shared if method.get(name) is not None}:
            tree = merged(tree, {part: {"method": known | own}})
    return tree


def seeded(tree: Json, seed: Any, own: Json) -> Json:
    """Set the seed of every part that draws random numbers, except those with a seed in `own`."""
    parts = [*SEEDED, *(part for part in SEEDED_IF_PRESENT if tree.get(part))]
    return merged(
        tree, {part: {"seed": seed} for part in parts if "seed" not in table_at(own, part)}
    )


def without_initialiser(tree: Json, asked: Json, given: Collection[str]) -> Json:
    """Remove an initialiser without a method, or with the method `none`.

    Raises:
        UsageError: settings of an initialiser that this run does not have.
    """
    first = tree.get("initialiser")
    if not isinstance(first, dict) or (first.get("method") or "none") != "none":
        return tree
    if first.get("method"):
        own = [path for path in given if path.startswith("initialiser.")]
        unused = [path for path in own if path != "initialiser.method"]
    else:
        unused = [".".join(["initialiser", *asked["initialiser"]][:2])]
    tree = tree | {"initialiser": None}
    if unused:
        checked(tree)  # a misspelt method explains more
        raise UsageError(
            f"{unused[0]}: this run has no initialiser. Leave the setting out, or name an "
            "initialiser (--initialiser NAME): only rounds from random weights have one by default."
        )
    return tree


def with_bounded_initialiser(tree: Json, asked: Json, given: Collection[str]) -> Json:
    """Limit an initialiser to the steps of `--steps`, unless its own steps are stated."""
    first, steps = tree.get("initialiser"), table_at(tree, "training").get("steps")
    bounded = "training.steps" in given and "steps" not in table_at(asked, "initialiser")
    if not (bounded and isinstance(first, dict) and isinstance(steps, int) and steps > 0):
        return tree
    usual = first.get("steps", TrainingConfig.model_fields["steps"].default)
    return tree | {"initialiser": first | {"steps": min(usual, steps)}}


def require_effect(run: AnyRun, given: Collection[str]) -> None:
    """Refuse settings of the command line that fine-tuning does not use.

    Raises:
        UsageError: there is such a setting.
    """
    part = "training" if isinstance(run, FineTuneRun) else "fine_tuning"
    for path in (f"{part}.{name}" for name in UNUSED_BY_FINE_TUNING):
        if path in given:
            option = option_of(path)
            raise UsageError(
                f"{path}{f' ({option})' if option else ''}: fine-tuning counts epochs, so this "
                "setting has no effect. "
                "Leave it out, or set labels.epochs and labels.patience."
            )


# Trees of settings


def nested(values: Mapping[str, Any]) -> Json:
    """Tree of the values at dotted paths; a later path wins."""
    tree: Json = {}
    for path, value in values.items():
        set_at(tree, path, value)
    return tree


def set_at(tree: Json, path: str, value: Any) -> None:
    """Set the value at a dotted path, and create the tables above it."""
    *tables, leaf = path.split(".")
    for name in tables:
        tree[name] = as_table(tree.get(name))
        tree = tree[name]
    tree[leaf] = value


def method_of(tree: Json) -> Any:
    """Name of the method that trains."""
    return table_at(tree, "training.method").get("name", ROUNDS)


# From a tree to a checked run


def checked(tree: Json) -> AnyRun:
    """Return the run that a tree of settings describes; a setting left out has the model's default.

    Raises:
        UsageError: an unknown or invalid setting (with its path).
    """
    return stated(checked_as(run_kind(tree), tree))


def run_kind(tree: Json) -> type[AnyRun]:
    """`infocse_idc` runs in rounds, with cycles as InfoCSE++; every other method trains once."""
    match method_of(tree):
        case "infocse_idc":
            return InfoCSEPlus if "cycles" in tree or "fine_tuning" in tree else InfoCSEIDC
        case "fine_tune":
            return FineTuneRun
        case _:
            return MethodRun


def checked_as(model: type[Model], tree: Json) -> Model:
    """Return the tree as a model.

    Raises:
        UsageError: one line for each invalid setting.
        NoNegativesError: a batch of fewer than two documents.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        faults = innermost(error.errors(include_url=False))
        kind = NoNegativesError if any(map(is_batch_of_one, faults)) else UsageError
        raise kind("\n".join(message(fault, model) for fault in faults)) from None
