"""Preset, TOML file and dotted overrides become one checked configuration."""

import hashlib
import json
import re
import tomllib
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from flows.cli.setting_faults import complaint, innermost, of_one_document
from flows.cli.setting_paths import METHODS, PATHS, ROUNDS, with_option
from flows.environment import prepare
from flows.presets import as_table, labelled_preset, merged, method_preset, preset
from sentemb_core.config.methods import temperature_of
from sentemb_core.config.presets import PRESETS, RUN_PRESETS, encoder_of, preset_of
from sentemb_core.config.run import (
    BUILT_IN_ENCODERS,
    FineTuneRun,
    InfoCSEIDC,
    InfoCSEPlus,
    MethodRun,
)
from sentemb_core.errors import NoNegativesError, UsageError
from sentemb_core.types import Json

Model = TypeVar("Model", bound=BaseModel)

AnyRun = InfoCSEIDC | InfoCSEPlus | FineTuneRun | MethodRun

MAYBE_PATHS = (
    ("corpus", "source"),
    ("labels", "source"),
    ("encoder", "name"),
    ("annotator", "name"),
)
"""Settings that may be a path, by table and name."""

CONTRASTING = frozenset(
    name
    for name, one in METHODS.items()
    if "temperature" in one.model_fields and temperature_of(one()) is not None
)
"""Methods that divide the encoder's similarity by a temperature of their own."""

HEAD = ("skip_from", "head_layers")
"""Settings of a Condenser stage's head, which the method behind it has too."""

COUNTED = ("steps", "evaluate_every", "patience")
"""Settings of a training that fine-tuning has of its labels instead (`fine_tune.by_epochs`)."""

SEEDED = ("encoder", "annotation", "training")
SEEDED_IF_THERE = ("annotator", "initialiser", "fine_tuning")


def by_path(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as settings."""
    return {PATHS[name]: value for name, value in options.items()}


def settings(file: Path | None, options: Mapping[str, Any], overrides: Sequence[str]) -> AnyRun:
    """Preset of the start encoder, file, options, `--set a.b=value`: the later one wins.

    A method's preset, if `preset` names one, comes second, behind the file where an option names
    it: a run's own config.json says every setting. The method says which kind of run it is.
    `initialiser.method = none` leaves the initialiser out. A run without a name has its corpus's.

    Raises:
        UsageError: an unreadable file, an unknown or a wrong setting (with its path).
    """
    written = read_settings(file) if file else {}
    asked = {path: value for path, value in options.items() if value is not None}
    own = dict(map(override, overrides))
    given, spoken = deepcopy(written), dict[str, Any]()
    for path, value in (*asked.items(), *own.items()):
        plant(given, path, value)
        plant(spoken, path, value)
    encoder = given.get("encoder")
    name = str(encoder.get("name", "static")) if isinstance(encoder, dict) else "static"
    named, seed = given.pop("preset", None), given.pop("seed", None)
    base = base_of(given, place_of(name))
    if named is not None or "method" in table_at(given, "training"):
        plant(given, "training.method.name", method_of(given))
    if named is None or not isinstance(method_of(given), str):  # which is told as such
        tree = merged(base, given)
    else:
        below, above = (written, spoken) if "preset" in spoken else ({}, given)
        plant(above, "training.method.name", method_of(given))
        layers = (base, below, named_preset(method_of(given), str(named)), above)
        tree = alike(reduce(merged, layers))
        for asked_once in ("preset", "seed"):  # no settings of a run
            tree.pop(asked_once, None)
    if table_at(tree, "initialiser").get("method") == "none":
        tree["initialiser"] = None
        refuse_of_none(asked.keys() | own.keys())
    require_initialiser(tree, given, name)
    tree = placed(tree)
    if "seed" not in {**asked, **own}:  # then it is the file's, and so are those of its parts
        stated = [f"{part}.seed" for part in written if "seed" in table_at(written, part)]
        own |= dict.fromkeys(stated)
    run = checked(called(tree if seed is None else seeded(tree, seed, own)))
    require_effect(run, asked.keys() | own.keys())
    return run


def place_of(encoder: str) -> str:
    """Where a registered encoder lies; any other name as it is.

    Raises:
        RegistryError, UnsafeModelError: As `registered_encoders.resolve`.
    """
    if not encoder.startswith("models:"):
        return encoder
    prepare()
    from tasks.registered_encoders import encoder_at

    return encoder_at(encoder)


def require_initialiser(tree: Json, given: Json, encoder: str) -> None:
    """Settings of an initialiser want one; only rounds from random weights have one by themselves.

    Raises:
        UsageError: there is none, or another setting is wrong.
    """
    first = tree.get("initialiser")
    if isinstance(first, dict) and not first.get("method"):
        checked(tree | {"initialiser": None})  # a misspelt method is told as such
        path = ".".join(["initialiser", *given["initialiser"]][:2])
        raise UsageError(
            f"{path}: this run has no initialiser; by themselves only rounds from random weights "
            f"have one, and this one starts from {encoder!r}, or trains once. Leave it out, or "
            "name one: --initialiser NAME."
        )


def refuse_of_none(asked: Collection[str]) -> None:
    """Nothing is asked of an initialiser that is left out.

    Raises:
        UsageError: something is.
    """
    for path in asked:
        if path.startswith("initialiser.") and path != "initialiser.method":
            raise UsageError(
                f"{with_option(path)}: this run has no initialiser (--initialiser none). Leave it "
                "out, or name one."
            )


def require_effect(run: AnyRun, asked: Collection[str]) -> None:
    """Steps that a person asks for are of a training that counts in them.

    Raises:
        UsageError: they are of a fine-tuning.
    """
    for path in uncounted(run.training.method.name):
        if path in asked:
            raise UsageError(
                f"{with_option(path)}: fine-tuning counts in passes over its labels, and this "
                "would change nothing. Leave it out, or take --set labels.epochs=N (at most so "
                "many) and labels.patience."
            )


def uncounted(method: str) -> list[str]:
    """Settings that would change nothing in a run of this method, or in its fine-tuning."""
    part = "training" if method == "fine_tune" else "fine_tuning"
    return [f"{part}.{name}" for name in COUNTED]


def called(tree: Json) -> Json:
    """With a name: models of two corpora under one would compete on texts that one never saw."""
    source = table_at(tree, "corpus").get("source")
    if not isinstance(source, str) or not (name := name_after(source)):
        return tree
    return {"name": name} | tree


def name_after(source: str) -> str:
    """The name of a file, a folder or a data set, in the letters that a model's name may have.

    Of a name without any, a digest: two such corpora are two models.
    """
    path = Path(source).absolute()
    stem = Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem
    plain = "".join(c for c in unicodedata.normalize("NFKD", stem) if not unicodedata.combining(c))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")[:64]
    return name or (f"corpus-{hashlib.sha256(stem.encode()).hexdigest()[:8]}" if stem else "")


def placed(tree: Json) -> Json:
    """With whole paths to the files and folders that it names, and versions for aliases.

    A run is repeated from anywhere, and with the encoder that it began with.
    """
    known = {
        table: {name: lasting(settings[name])}
        for table, name in MAYBE_PATHS
        if isinstance(settings := tree.get(table), dict) and isinstance(settings.get(name), str)
    }
    return merged(tree, known)


def whole(name: str) -> str:
    """A file or a folder by its whole path; any other name as it is."""
    known = name and name not in BUILT_IN_ENCODERS and Path(name).exists()
    return str(Path(name).absolute()) if known else name


def lasting(name: str) -> str:
    """A registered encoder by its version; a path as a whole; any other name as it is.

    Raises:
        RegistryError: there is no such model.
    """
    if not name.startswith("models:"):
        return whole(name)
    prepare()
    from tasks.registered_encoders import version_at

    return version_at(name)


def base_of(given: Json, encoder: str) -> Json:
    """The settings that go with the kind of run and its start encoder."""
    kind = kind_of(given)
    base = method_preset(encoder) if kind is MethodRun else preset(encoder)
    if kind in (FineTuneRun, InfoCSEPlus):
        base = merged(
            base, labelled_preset(encoder, "training" if kind is FineTuneRun else "fine_tuning")
        )
    if kind in (MethodRun, FineTuneRun) and not given.get("initialiser"):
        base.pop("initialiser", None)
    return base


def override(text: str) -> tuple[str, Any]:
    """Path and value of a `--set`."""
    path, equals, value = text.partition("=")
    if not (path.strip() and equals):
        raise UsageError(f"--set wants KEY=VALUE, found {text!r}: --set training.steps=200")
    return path.strip(), literal(value.strip())


def seeded(tree: Json, seed: Any, own: Collection[str]) -> Json:
    """The seed in every part of the run that draws, but for those whose `own` path was set."""
    parts = [*SEEDED, *(part for part in SEEDED_IF_THERE if tree.get(part))]
    return merged(tree, {part: {"seed": seed} for part in parts if f"{part}.seed" not in own})


def named_preset(method: str, name: str) -> Json:
    """The named settings of a method: of its training and its encoder, or of its whole run.

    Raises:
        UsageError: the method has no such preset.
    """
    known: Json = {
        key: {"training": preset_of(method, key), "encoder": encoder_of(method, key)}
        for key in PRESETS.get(method, {})
    }
    known |= RUN_PRESETS.get(method, {})
    if name not in known:
        raise UsageError(f"preset: {method} has no {name!r}; known: {', '.join(known) or 'none'}")
    return known[name]


def alike(tree: Json) -> Json:
    """Initialiser and fine-tuning have of the method what they share with it; their own stays.

    A Condenser stage has the head that the method behind it begins with. Under inner products all
    have its temperature: they share its loss (mutual, section 3.3), which a temperature for
    cosines would leave without a gradient.
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


def table_at(tree: Json, path: str) -> Json:
    """The table at a dotted path; empty where there is none."""
    for name in path.split("."):
        tree = as_table(tree.get(name))
    return tree


def read_settings(file: Path) -> Json:
    """A TOML file, or the config.json that stands beside every report."""
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(f"There is no configuration file {file}.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as settings: {error}.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{file} cannot be read as settings: it holds no table of them.")
    return found


def plant(tree: Json, path: str, value: Any) -> None:
    """Put a value at a dotted path, making the tables on the way."""
    *tables, leaf = path.split(".")
    for name in tables:
        tree[name] = as_table(tree.get(name))
        tree = tree[name]
    tree[leaf] = value


def literal(text: str) -> Any:
    """`3`, `0.5`, `true`, `null` and `"quoted"` as in JSON; anything else is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def method_of(tree: Json) -> str:
    """The name of the method that trains."""
    return table_at(tree, "training.method").get("name", ROUNDS)


def checked(tree: Json) -> AnyRun:
    """The run that these settings describe.

    Raises:
        UsageError: an unknown or a wrong setting (with its path).
    """
    return checked_as(kind_of(tree), tree)


def kind_of(tree: Json) -> type[AnyRun]:
    """Self-annotation runs in rounds, and with cycles it is InfoCSE++; others train once."""
    match method_of(tree):
        case "infocse_idc":
            return InfoCSEPlus if "cycles" in tree or "fine_tuning" in tree else InfoCSEIDC
        case "fine_tune":
            return FineTuneRun
        case _:
            return MethodRun


def checked_as(model: type[Model], tree: Json) -> Model:
    """A table of settings as its model, or one line a mistake."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        faults = innermost(error.errors(include_url=False))
        kind = NoNegativesError if any(map(of_one_document, faults)) else UsageError
        raise kind("\n".join(complaint(fault, model) for fault in faults)) from None
