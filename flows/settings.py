"""Preset, TOML file and dotted overrides become one checked configuration."""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from flows.presets import labelled_preset, method_preset, preset
from sentemb_core.configs import NAMED, FineTuneRun, InfoCSEIDC, InfoCSEPlus, MethodRun, RunConfig
from sentemb_core.errors import NoNegativesError, UsageError
from sentemb_core.formats import did_you_mean, nearest
from sentemb_core.method_presets import PRESETS, RUN_PRESETS, encoder_of, preset_of
from sentemb_core.method_settings import METHOD_NAMES, AnyMethod, temperature_of
from sentemb_core.types import Json

Model = TypeVar("Model", bound=BaseModel)

ROUNDS = "infocse_idc"
"""The method whose run has rounds; every other one trains once."""

OF_ROUNDS = InfoCSEPlus.model_fields.keys() - RunConfig.model_fields.keys()
"""Settings that only a run in rounds has."""

AnyRun = InfoCSEIDC | InfoCSEPlus | FineTuneRun | MethodRun

PATHS: Mapping[str, str] = {
    "name": "name",
    "encoder": "encoder.name",
    "method": "training.method",
    "preset": "preset",
    "initialiser": "initialiser.method",
    "steps": "training.steps",
    "rounds": "rounds.max_rounds",
    "cycles": "cycles.max_cycles",
    "labels": "labels.source",
    "label_count": "labels.count",
    "seed": "seed",
}
"""Option of the command line -> the setting it stands for; `seed` is that of every part."""

PLACES = (("corpus", "source"), ("labels", "source"), ("encoder", "name"), ("annotator", "name"))
"""Settings that may be a path, by table and name."""

METHODS: Mapping[str, type[AnyMethod]] = dict(zip(METHOD_NAMES, get_args(AnyMethod), strict=True))

CONTRASTING = frozenset(
    name
    for name, one in METHODS.items()
    if "temperature" in one.model_fields and temperature_of(one()) is not None
)
"""Methods that divide the encoder's similarity by a temperature of their own."""

NO_METHODS: Mapping[str, str] = {
    **dict.fromkeys(
        ("infocse_plus", "infocse-plus", "infocse++"),
        "InfoCSE++ is a run with --cycles N --labels FILE",
    ),
    "tsdae": "take --method clm_autoencoder --preset tsdae",
    "infocse": "two papers have this name: take infocse_idc or infocse_aux",
}
"""Names that a paper or our own flows have, and what to ask for in their place."""

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

    A method's preset, if `preset` names one, comes second. The method says which kind of run it is.
    `initialiser.method = none` leaves the initialiser out. A run without a name has its corpus's.

    Raises:
        UsageError: an unreadable file, an unknown or a wrong setting (with its path).
    """
    given = read_settings(file) if file else {}
    asked = {path: value for path, value in options.items() if value is not None}
    own = dict(map(override, overrides))
    for path, value in (*asked.items(), *own.items()):
        plant(given, path, value)
    encoder = given.get("encoder")
    name = str(encoder.get("name", "static")) if isinstance(encoder, dict) else "static"
    named, seed = given.pop("preset", None), given.pop("seed", None)
    base = base_of(given, name)
    if named is not None or "method" in table_at(given, "training"):
        plant(given, "training.method.name", method_of(given))
    if named is None or not isinstance(method_of(given), str):  # which is told as such
        tree = merged(base, given)
    else:
        tree = alike(merged(merged(base, named_preset(method_of(given), str(named))), given))
    if table_at(tree, "initialiser").get("method") == "none":
        tree["initialiser"] = None
    require_initialiser(tree, given, name)
    run = checked(called(placed(tree if seed is None else seeded(tree, seed, own))))
    require_effect(run, asked.keys() | own.keys())
    return run


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
    """The name of a file, a folder or a data set, in the letters that a model's name may have."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(source).absolute().stem).strip("-_")[:64]


def placed(tree: Json) -> Json:
    """With whole paths to the files and folders that it names: a run is repeated from anywhere."""
    known = {
        table: {name: whole(settings[name])}
        for table, name in PLACES
        if isinstance(settings := tree.get(table), dict) and isinstance(settings.get(name), str)
    }
    return merged(tree, known)


def whole(name: str) -> str:
    """A file or a folder by its whole path; any other name as it is."""
    known = name and name not in NAMED and Path(name).exists()
    return str(Path(name).absolute()) if known else name


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
    have its temperature: they share its loss (seed 000, section 3.3), which a temperature for
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


def merged(base: Json, over: Json) -> Json:
    """`over` on top of `base`, table by table."""
    both = {
        name: merged(as_table(base[name]), over[name])
        for name in base.keys() & over.keys()
        if isinstance(base[name], dict | str) and isinstance(over[name], dict)
    }
    return base | over | both


def as_table(value: Any) -> Json:
    """`conpono` is short for `{name = "conpono"}`; nothing, or a null, is an empty table."""
    return value if isinstance(value, dict) else {"name": value} if value else {}


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
        faults = error.errors(include_url=False)
        kind = NoNegativesError if any(map(of_one_document, faults)) else UsageError
        raise kind("\n".join(complaint(fault, model) for fault in faults)) from None


def of_one_document(fault: ErrorDetails) -> bool:
    """Whether it is a batch without negatives."""
    return fault["loc"][-1:] == ("batch_size",) and fault["type"] == "greater_than_equal"


def complaint(fault: ErrorDetails, model: type[BaseModel]) -> str:
    """One line: the setting's path, the rule, what was found, the closest name."""
    path = path_of(fault["loc"])
    told = with_option(path) or "config"
    found = f"found {fault['input']!r:.80}"
    sentence = fault["msg"].removeprefix("Value error, ")
    if of_one_document(fault):
        return f"{told}: a batch must span at least 2 documents, else nothing contrasts; {found}"
    match fault["type"]:
        case "missing" if path in ("corpus", "corpus.source"):
            return "no corpus: name a source, as in `python -m flows run documents.jsonl`"
        case "too_short" if path == "models":
            return (
                "a benchmark compares models, and none is named: name one or more, before --tasks "
                "and --beir, as in `python -m flows benchmark minilm models:/NAME@champion`"
            )
        case "extra_forbidden" if model in (MethodRun, FineTuneRun) and path in OF_ROUNDS:
            return (
                f"{told}: every method but {ROUNDS} trains once, and has no such setting; leave "
                "out either this or the method"
            )
        case "extra_forbidden":
            near = known_near(fault["loc"], model)
            return f"{told}: there is no such setting{near}{listed(fault['loc'], model)}"
        case "union_tag_invalid":
            tag, tags = (str(fault.get("ctx", {})[name]) for name in ("tag", "expected_tags"))
            if way := NO_METHODS.get(tag.lower()):
                return f"{told}: {tag!r} is no method; {way}"
            return f"{told}: there is no {tag!r}{nearest(tag, re.findall(r'[a-z0-9_]+', tags))}"
        case "model_type":
            return f"{told} is a table of settings, as in --set {path}.KEY=VALUE; {found}"
        case "string_pattern_mismatch" if path == "name":
            letters = "1-64 letters, digits, '_' or '-', a letter or a digit first"
            return f"{told} has {letters}; {found}"
        case "union_tag_not_found":
            return f"{told}: name it, as in --set {path}.name=conpono; {found}"
        case "model_attributes_type":
            return f"{told}: name it, as in --set {path}.name=simcse; {found}"
        case "tuple_type":
            typed = json.dumps(str(fault["input"]).split(","))
            return f"{told} is a list, even of one: --set '{path}={typed}'; {found}"
        case "value_error":  # a validator's own sentence, which says what it found
            return f"{told}: {sentence}" if path else sentence
        case _:
            return f"{told}: {fault['msg']}, {found}"


def path_of(location: tuple[int | str, ...]) -> str:
    """Where it is set; pydantic has a method's name between `method` and a setting of it."""
    return ".".join(
        str(part)
        for before, part in pairwise(("", *location))
        if not (before == "method" and part in METHOD_NAMES)
    )


def option_of(path: str) -> str | None:
    """`--steps` of training.steps: what a person may type in its place."""
    names = (name for name, own in PATHS.items() if own == path)
    return next((f"--{name.replace('_', '-')}" for name in names), None)


def with_option(path: str) -> str:
    """The path, and behind it the option that a person may have typed in its place."""
    option = option_of(path)
    return f"{path} ({option})" if option and path not in PATHS else path


def known_near(location: tuple[int | str, ...], whole: type[BaseModel]) -> str:
    """`; did you mean 'steps'?` when a field of that table is close, or one of a table below."""
    model: Any = whole
    for part in location[:-1]:
        model = table_of(model, str(part))
    name = str(location[-1])
    if not location[:-1] and (below := shallowest(paths_to(name, model))):
        return f"; {did_you_mean(*below)}"
    return nearest(name, model.model_fields)


def listed(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Where the settings of that table are told, if it is a run's."""
    if not issubclass(model, RunConfig):
        return ""
    *tables, last = location[:-1] or ("",)
    method = f" --method {last}" if tables[-1:] == ["method"] else ""
    table = "training.method" if method else path_of(location[:-1])
    return f" (`{' '.join(filter(None, ('python -m flows settings', table)))}{method}` tells all)"


def paths_to(name: str, model: type[BaseModel]) -> Iterator[str]:
    """Where the settings of a run have a field of this name."""
    for field in model.model_fields:
        if field == name:
            yield field
        for table in tables_of(model, field):
            yield from (f"{field}.{path}" for path in paths_to(name, table))


def shallowest(paths: Iterable[str]) -> list[str]:
    """Those of the fewest tables, each once."""
    known = dict.fromkeys(paths)
    least = min((path.count(".") for path in known), default=0)
    return [path for path in known if path.count(".") == least]


def table_of(model: Any, part: str) -> Any:
    """The model of a field, in `Model` or `Model | None`; of a method, the one of that name."""
    if part not in getattr(model, "model_fields", ()):
        return METHODS[part]
    tables = tables_of(model, part)
    return tables[0] if len(tables) == 1 else model.model_fields[part].annotation


def tables_of(model: Any, field: str) -> list[Any]:
    """The models that a field of a model may hold."""
    annotation = model.model_fields[field].annotation
    kinds = get_args(annotation) or (annotation,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
