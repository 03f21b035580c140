"""Where a setting lies: its path, the option that stands for it, the tables of a run's models."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

from sentemb_core.config.methods import METHOD_NAMES, AnyMethod
from sentemb_core.config.run import InfoCSEPlus, RunConfig

ROUNDS = "infocse_idc"
"""The method whose run has rounds; every other one trains once."""

OF_ROUNDS = InfoCSEPlus.model_fields.keys() - RunConfig.model_fields.keys()
"""Settings that only a run in rounds has."""

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
    "postprocess": "postprocess",
    "seed": "seed",
}
"""Option of the command line -> the setting it stands for; `seed` is that of every part."""

METHODS: Mapping[str, type[AnyMethod]] = dict(zip(METHOD_NAMES, get_args(AnyMethod), strict=True))


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
