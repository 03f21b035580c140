"""Messages about invalid settings: path, rule, value found, and the closest valid name."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from flows.cli.options import SETTINGS
from sentemb_core.config.methods import METHODS
from sentemb_core.config.run import FineTuneRun, InfoCSEPlus, MethodRun, RunConfig
from sentemb_core.formats import did_you_mean, nearest

ROUNDS = "infocse_idc"
"""The method that annotates and trains in rounds; every other method trains once."""

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
    option = option_of(path)
    name = f"{path} ({option})" if option else path or "config"
    rule, found = fault["msg"], f"found {fault['input']!r:.80}"
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
        case "value_error":
            sentence = rule.removeprefix("Value error, ")
            return f"{name}: {sentence}" if path else sentence
        case "greater_than_equal" if is_batch_of_one(fault):
            rule = "a batch needs at least 2 documents, or it has no negatives"
        case "string_pattern_mismatch" if path == "name":
            rule = "use 1-64 letters, digits, '_' or '-', first a letter or digit"
        case "model_type":
            rule = f"expected a table, as in --set {path}.KEY=VALUE"
        case "union_tag_not_found" | "model_attributes_type":
            rule = f"name it, as in --set {path}.name=simcse"
        case "tuple_type":
            values = json.dumps(str(fault["input"]).split(","))
            rule = f"expected a list, as in --set '{path}={values}'"
        case _:
            pass
    return f"{name}: {rule}; {found}"


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
    """Path of a setting, without the names that pydantic inserts after `method` and `base`."""
    return ".".join(
        str(part)
        for before, part in pairwise(("", *location))
        if not (before in ("method", "base") and part in METHODS)
    )


def option_of(path: str) -> str | None:
    """`--steps` for training.steps."""
    names = (name for name, own in SETTINGS.items() if own == path)
    return next((f"--{name.replace('_', '-')}" for name in names), None)


def closest(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """End of a message about an unknown setting: similar settings, and where they are listed."""
    *tables, name = map(str, location)
    if not tables:
        return (
            f"{similar(name, [*paths_in(model), *SETTINGS.values()])} (`python -m flows settings`)"
        )
    for part in tables:
        field = model.model_fields.get(part)
        model = tables_in(field.annotation)[0] if field else METHODS[part]
    siblings = nearest(name, model.model_fields)
    return f"{siblings} (`python -m flows settings {path_of(location[:-1])}`)"


def similar(path: str, known: Iterable[str]) -> str:
    """`; did you mean 'training.steps'?`: settings with the most similar name, else all tables."""
    table, _, name = path.rpartition(".")
    splits = {other: other.rpartition(".") for other in known if other != path}
    close = get_close_matches(name, {own for _, _, own in splits.values()}, n=1)
    same = [other for other, (_, _, own) in splits.items() if own in close]
    depth = min((other.count(".") for other in same), default=0)
    near = [other for other in same if splits[other][0] == table]
    near = near or [other for other in same if other.count(".") == depth]
    tables = dict.fromkeys(other.partition(".")[0] for other in splits)
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
