"""Messages about invalid settings: path, rule, value found, and the closest valid name."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from flows.cli.options import SETTINGS
from sentemb_core.config.methods import METHOD_NAMES, AnyMethod
from sentemb_core.config.run import FineTuneRun, InfoCSEPlus, MethodRun, RunConfig
from sentemb_core.formats import did_you_mean, nearest

ROUNDS = "infocse_idc"
"""The method that annotates and trains in rounds; every other method trains once."""

METHODS: Mapping[str, type[AnyMethod]] = dict(zip(METHOD_NAMES, get_args(AnyMethod), strict=True))

ONLY_IN_ROUNDS = InfoCSEPlus.model_fields.keys() - RunConfig.model_fields.keys()

OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("infocse_plus", "infocse-plus", "infocse++"), "use --cycles N --labels FILE (InfoCSE++)"
    ),
    "tsdae": "use --method clm_autoencoder --preset tsdae",
    "infocse": "two papers have this name: use infocse_idc or infocse_aux",
    **dict.fromkeys(
        ("whitening", "soft_whitening", "flow"),
        "it is fitted, not trained: use --postprocess whitening (soft_whitening, flow)",
    ),
    **dict.fromkeys(
        ("bm25", "random"), "it is a baseline in every run: use `compare BM25 MODEL` for more"
    ),
    **dict.fromkeys(
        ("glove", "word2vec", "fasttext", "word_vectors"),
        "a file of word vectors is a start encoder: use --encoder FILE",
    ),
}
"""Names of methods in papers -> the option that gives the same."""


def message(fault: ErrorDetails, model: type[BaseModel]) -> str:
    """Return one line about an invalid setting of a model."""
    path = path_of(fault["loc"])
    name = with_option(path) or "config"
    found = f"found {fault['input']!r:.80}"
    if is_batch_of_one(fault):
        return f"{name}: a batch needs at least 2 documents, or it has no negatives; {found}"
    match fault["type"]:
        case "missing" if path in ("corpus", "corpus.source"):
            return "There is no corpus: name a source, as in `python -m flows run documents.jsonl`"
        case "too_short" if path == "models":
            return (
                "Name at least one model before --tasks and --beir: `benchmark minilm --tasks sts`"
            )
        case "extra_forbidden" if model in (MethodRun, FineTuneRun) and path in ONLY_IN_ROUNDS:
            return f"{name}: only {ROUNDS} has this setting; leave out the setting or the method"
        case "extra_forbidden":
            return f"{name}: unknown setting{closest(fault['loc'], model)}"
        case "union_tag_invalid":
            tag, tags = (str(fault.get("ctx", {})[key]) for key in ("tag", "expected_tags"))
            if instead := OTHER_NAMES.get(tag.lower()):
                return f"{name}: {tag!r} is not a method here; {instead}"
            return f"{name}: unknown {tag!r}{nearest(tag, re.findall(r'[a-z0-9_]+', tags))}"
        case "model_type":
            return f"{name}: expected a table, as in --set {path}.KEY=VALUE; {found}"
        case "string_pattern_mismatch" if path == "name":
            return f"{name}: use 1-64 letters, digits, '_' or '-', first a letter or digit; {found}"
        case "union_tag_not_found" | "model_attributes_type":
            return f"{name}: name it, as in --set {path}.name=simcse; {found}"
        case "tuple_type":
            values = json.dumps(str(fault["input"]).split(","))
            return f"{name}: expected a list, as in --set '{path}={values}'; {found}"
        case "value_error":
            sentence = fault["msg"].removeprefix("Value error, ")
            return f"{name}: {sentence}" if path else sentence
        case _:
            return f"{name}: {fault['msg']}, {found}"


def is_batch_of_one(fault: ErrorDetails) -> bool:
    return fault["loc"][-1:] == ("batch_size",) and fault["type"] == "greater_than_equal"


def innermost(faults: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the innermost faults: no fault whose location contains that of another."""
    locations = [fault["loc"] for fault in faults]
    return [
        fault
        for fault in faults
        if not any(other != fault["loc"] == other[: len(fault["loc"])] for other in locations)
    ]


def path_of(location: tuple[int | str, ...]) -> str:
    """Path of a setting, without the method's name that pydantic inserts after `method`."""
    return ".".join(
        str(part)
        for before, part in pairwise(("", *location))
        if not (before == "method" and part in METHOD_NAMES)
    )


def with_option(path: str) -> str:
    """The path, followed by the option that sets it: `training.steps (--steps)`."""
    option = option_of(path)
    return f"{path} ({option})" if option and path not in SETTINGS else path


def option_of(path: str) -> str | None:
    """`--steps` for training.steps."""
    names = (name for name, own in SETTINGS.items() if own == path)
    return next((f"--{name.replace('_', '-')}" for name in names), None)


def closest(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """End of a message about an unknown setting: similar settings, and where they are listed."""
    *tables, name = (str(part) for part in location)
    known = [*paths_in(model), *SETTINGS.values()]
    table = path_of(location[:-1])
    if table:
        method = tables[-1] if tables[-2:-1] == ["method"] else ""
        siblings = METHODS[method].model_fields if method in METHODS else children(table, known)
        return f"{nearest(name, siblings)} (`python -m flows settings {table}`)"
    return f"{similar(name, known)} (`python -m flows settings`)"


def children(table: str, known: Iterable[str]) -> list[str]:
    """Names of the settings directly in a table."""
    below = (path.removeprefix(f"{table}.") for path in known if path.startswith(f"{table}."))
    return [*dict.fromkeys(path.split(".")[0] for path in below)]


def similar(path: str, known: Iterable[str]) -> str:
    """`; did you mean 'training.steps'?`: settings of the same name, else of a similar name."""
    name_of = {other: other.rpartition(".")[2] for other in known}
    name = path.rpartition(".")[2]
    same = [other for other in name_of if name_of[other] == name and other != path]
    depth = min((other.count(".") for other in same), default=0)
    near = [other for other in same if other.count(".") == depth]
    near = near or difflib.get_close_matches(path, name_of)
    if not near:
        path_of_name = {name_of[other]: other for other in reversed(name_of)}
        near = [path_of_name[close] for close in difflib.get_close_matches(name, path_of_name)]
    tables = dict.fromkeys(other.partition(".")[0] for other in name_of)
    return f"; {did_you_mean(*near)}" if near else f"; known: {', '.join(tables)}"


def paths_in(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Paths of all settings and tables of a model; of alternative tables, the settings of each."""
    for name, field in model.model_fields.items():
        yield above + name
        for table in tables_in(field.annotation):
            yield from paths_in(table, f"{above}{name}.")


def tables_in(annotation: Any) -> list[type[BaseModel]]:
    """Models that a field may hold."""
    kinds = get_args(annotation) or (annotation,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
