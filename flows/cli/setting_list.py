"""Every setting of a run: its path, default and meaning, read from the models themselves."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from flows.cli.setting_paths import METHODS, ROUNDS, shallowest, tables_of
from flows.cli.settings import AnyRun, settings, uncounted
from sentemb_core.config.methods import CONPONO, METHOD_NAMES, AnyMethod, FineTune
from sentemb_core.config.run import (
    CyclesConfig,
    EncoderConfig,
    InfoCSEIDC,
    InfoCSEPlus,
    RunConfig,
)
from sentemb_core.errors import UsageError
from sentemb_core.formats import did_you_mean, nearest
from sentemb_core.types import Json
from tasks.checks import entry_of
from tasks.setting_names import at_path

STARTS = {"static": "static", "transformer": "transformer", "pretrained": "minilm"}
"""Kinds of start encoder that bring defaults of their own -> an encoder of that kind."""

WITHOUT_DEFAULT = {
    "corpus.source": "(needed)",
    "name": "(the corpus's)",
    "annotator.name": "(the start encoder)",
}
"""What has no default at the command line -> what stands in its place."""

OF_MANY = {
    "preset": (
        None,
        "str or null",
        "Settings that a paper or its code states for the method, by name (`sentemb methods`); "
        "what you set yourself wins.",
    ),
    "seed": (42, "int", "Of every part whose own is not set."),
}
"""What stands for other settings, and so in no model -> default, type, meaning."""


@dataclass(frozen=True)
class Setting:
    """A setting of a run, or a table of settings.

    Attributes:
        path: As `--set` takes it.
        meaning: The model's own words.
        type: As in Python; a table's is "table".
        choices: All values, where they have names.
        defaults: Kind of start encoder -> default; a table has none.
        with_cycles: The default in InfoCSE++, from the first kind.
        runs: Which runs have it.
    """

    path: str
    meaning: str
    type: str
    choices: tuple[str, ...]
    defaults: Mapping[str, Any]
    with_cycles: Any
    runs: str

    @property
    def default(self) -> Any:
        """From the first kind of start encoder."""
        return next(iter(self.defaults.values()), None)

    @property
    def is_table(self) -> bool:
        return self.type == "table"


@dataclass(frozen=True)
class Place:
    """A field of a model, and its path in the settings."""

    path: str
    model: type[BaseModel]
    field: str

    @property
    def annotation(self) -> Any:
        return self.model.model_fields[self.field].annotation

    @property
    def tables(self) -> list[type[BaseModel]]:
        """The models that may stand here; of several one is chosen by its name."""
        return tables_of(self.model, self.field)

    @property
    def may_miss(self) -> bool:
        """Whether it is a table that a run can be without."""
        return bool(self.tables) and NoneType in get_args(self.annotation)

    @property
    def meaning(self) -> str:
        told = self.model.model_fields[self.field].description
        return told or (getdoc(self.tables[0]) if self.tables else None) or ""


@dataclass(frozen=True)
class Runs:
    """Of a method and a start encoder: by themselves, with every part there may be, in cycles."""

    alone: AnyRun
    whole: AnyRun
    cycles: AnyRun


def settings_of(method: str) -> list[Setting]:
    """All that a run takes whose `training.method` this is; parts that it may lack come last.

    Raises:
        UsageError: there is no such method.
    """
    if method not in METHOD_NAMES:
        raise UsageError(f"--method: there is no {method!r}{nearest(method, METHOD_NAMES)}")
    takes_static = entry_of(method).takes_static
    runs = {
        start: runs_of(method, encoder)
        for start, encoder in STARTS.items()
        if takes_static or start != "static"
    }
    first = next(iter(runs.values()))
    of_many = [
        Setting(path, meaning, kind, (), dict.fromkeys(runs, value), value, "all")
        for path, (value, kind, meaning) in OF_MANY.items()
    ]
    found = [place for place in places_of(first.cycles) if has_effect(place.path, first)]
    return of_many + [setting_at(place, runs) for place in found]


def runs_of(method: str, encoder: str) -> Runs:
    """As the command line makes them."""
    given: Json = {"corpus.source": "SOURCE", "encoder.name": encoder, "training.method": method}
    alone = settings(None, given, [])
    given |= {"initialiser.method": value_at(alone, "initialiser.method") or CONPONO().name}
    if method != ROUNDS:
        whole = settings(None, given, [])
        return Runs(alone, whole, whole)
    given |= {"annotator.name": EncoderConfig().name}
    cycles = given | {"cycles.max_cycles": CyclesConfig().max_cycles}
    return Runs(alone, settings(None, given, []), settings(None, cycles, []))


def has_effect(path: str, runs: Runs) -> bool:
    """Whether a person may set it: fine-tuning counts in its labels' epochs, not in steps.

    Settings of the initialiser's method are those of one that a run has by itself.
    """
    if path.startswith("initialiser.method."):
        return runs.alone.initialiser is not None
    return path not in uncounted(runs.alone.training.method.name)


def places_of(table: BaseModel, above: str = "") -> Iterator[Place]:
    """Of every setting and table in a table; below a method those that this one has."""
    model = type(table)
    every = [Place(above + name, model, name) for name in model.model_fields]
    for place in sorted(every, key=lambda place: place.may_miss):
        if not place.tables:
            yield place
            continue
        below = places_of(getattr(table, place.field), f"{place.path}.")
        name = f"{place.path}.name" if len(place.tables) > 1 else ""
        bare = not name or place.field == "method"  # whose name alone is a value
        yield place if bare else Place(name, model, place.field)
        yield from (one for one in below if one.path != name)


def setting_at(place: Place, runs: Mapping[str, Runs]) -> Setting:
    """What is known of it."""
    table = len(place.tables) == 1
    return Setting(
        path=place.path,
        meaning=place.meaning,
        type="table" if table else type_of(place.annotation),
        choices=() if table else allowed(place),
        defaults={} if table else {start: default(place, each) for start, each in runs.items()},
        with_cycles=None if table else default(place, next(iter(runs.values())), in_cycles=True),
        runs=whose(place.path),
    )


def default(place: Place, runs: Runs, *, in_cycles: bool = False) -> Any:
    """What a run has if nobody sets it."""
    if place.path in WITHOUT_DEFAULT:
        return None
    if place.path == "encoder.name":  # by which the runs differ
        return EncoderConfig().name
    if place.path == "initialiser.method":
        return value_at(runs.alone, place.path) or "none"
    top = place.path.split(".")[0]
    run = runs.whole if top in type(runs.whole).model_fields and not in_cycles else runs.cycles
    return value_at(run, place.path)


def value_at(run: RunConfig, path: str) -> Any:
    """The value of a setting in a run, if it has the setting; of a method its name."""
    found = at_path(run, path)
    return found.name if isinstance(found, get_args(AnyMethod)) else found


def whose(path: str) -> str:
    """Which runs have a setting."""
    top = path.split(".")[0]
    if top not in InfoCSEPlus.model_fields or top in RunConfig.model_fields:
        return "all"
    return ROUNDS if top in InfoCSEIDC.model_fields else f"{ROUNDS} with --cycles (InfoCSE++)"


def type_of(annotation: Any) -> str:
    """`int or null`; one of several names is a `str`."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = sorted(get_args(annotation), key=lambda kind: kind is NoneType)
        return " or ".join(dict.fromkeys(map(type_of, kinds)))
    if get_origin(annotation) is tuple:
        return "list"
    if annotation is NoneType:
        return "null"
    return annotation.__name__ if annotation in (bool, int, float) else "str"


def allowed(place: Place) -> tuple[str, ...]:
    """The names among which one chooses; what comes before or after the rounds is no round."""
    names = tuple(choices_of(place.annotation))
    match place.path:
        case "fine_tuning.method":
            return tuple(name for name in names if name == FineTune().name)
        case "initialiser.method":
            return tuple(name for name in names if name != ROUNDS)
        case _:
            return names


def choices_of(annotation: Any) -> Iterator[str]:
    """The names that a value may have, if it is one of some, or a list of them."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation.model_fields["name"].default
    else:
        for kind in get_args(annotation):
            yield from choices_of(kind)


def settings_at(path: str, method: str) -> list[Setting]:
    """Those at a path and below it.

    Raises:
        UsageError: there are none; it names the closest.
    """
    known = settings_of(method)
    found = [one for one in known if f"{one.path}.".startswith(f"{path}.")]
    if not found:
        raise UsageError(f"{path}: {no_setting(path, method, known)}")
    return found


def no_setting(path: str, method: str, known: Sequence[Setting]) -> str:
    """Why a run of this method has no such setting, and what comes closest."""
    *tables, name = path.split(".")
    if tables[-1:] == ["method"] and name != "name":
        owners = [one for one, its in METHODS.items() if one != method and name in its.model_fields]
        if owners:
            return f"{method} has no such setting; a method that has it: --method {owners[0]}"
    if path in uncounted(method):
        return "fine-tuning counts in passes over its labels: see `python -m flows settings labels`"
    if method != ROUNDS and whose(path) != "all":
        return f"{method} trains once, and has no such setting; runs of {whose(path)} have it"
    near = closest(path, known)
    if near:
        return f"there is no such setting; {did_you_mean(*near)}"
    tops = dict.fromkeys(one.path.split(".")[0] for one in known)
    return f"there is no such setting; known: {', '.join(tops)}"


def closest(path: str, known: Sequence[Setting]) -> list[str]:
    """Settings of that name, or with that value, or whose path or name is much like it."""
    paths = [one.path for one in known]
    name = path.split(".")[-1]
    if same := shallowest(one for one in paths if one.split(".")[-1] == name):
        return same
    valued = [one.path for one in known if path in one.choices]
    alike = difflib.get_close_matches(path, paths, n=3, cutoff=0.8)
    names = {one.split(".")[-1]: one for one in reversed(paths)}
    return valued or alike or [names[one] for one in difflib.get_close_matches(name, names, n=3)]
