"""Preset, TOML file and dotted overrides become one checked configuration."""

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from flows.presets import preset
from sentemb_core.configs import InfoCSEIDC
from sentemb_core.errors import UsageError
from sentemb_core.types import Json


def settings(file: Path | None, options: Mapping[str, Any], overrides: Sequence[str]) -> InfoCSEIDC:
    """Preset of the start encoder, file, options, `--set a.b=value`: the later one wins.

    `initialiser.method = none` leaves the initialiser out.

    Raises:
        UsageError: an unreadable file, an unknown or a wrong setting (with its path).
    """
    given = read_settings(file) if file else {}
    for path, value in options.items():
        if value is not None:
            plant(given, path, value)
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set wants KEY=VALUE, found {text!r}: --set training.steps=200")
        plant(given, path.strip(), literal(value.strip()))
    encoder = given.get("encoder")
    tree = merged(
        preset(encoder.get("name", "static") if isinstance(encoder, dict) else "static"), given
    )
    if isinstance(tree.get("initialiser"), dict) and tree["initialiser"].get("method") == "none":
        tree["initialiser"] = None
    return checked(tree)


def merged(base: Json, over: Json) -> Json:
    """`over` on top of `base`, table by table."""
    both = {
        name: merged(base[name], over[name])
        for name in base.keys() & over.keys()
        if isinstance(base[name], dict) and isinstance(over[name], dict)
    }
    return base | over | both


def read_settings(file: Path) -> Json:
    """A TOML file, or the config.json that stands beside every report."""
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(f"There is no configuration file {file}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{file} cannot be read as settings: {error}.") from None


def plant(tree: Json, path: str, value: Any) -> None:
    """Put a value at a dotted path, making the tables on the way."""
    *tables, leaf = path.split(".")
    for name in tables:
        if not isinstance(tree.get(name), dict):  # absent, or switched off by a null
            tree[name] = {}
        tree = tree[name]
    tree[leaf] = value


def literal(text: str) -> Any:
    """`3`, `0.5`, `true`, `null` and `"quoted"` as in JSON; anything else is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def checked(tree: Json) -> InfoCSEIDC:
    try:
        return InfoCSEIDC.model_validate(tree)
    except ValidationError as error:
        raise UsageError("\n".join(complaints(error))) from None


def complaints(error: ValidationError) -> list[str]:
    """One line a wrong setting: its path, the rule, what was found, the closest name."""
    lines: list[str] = []
    for fault in error.errors(include_url=False):
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "missing" and path == "corpus":
            lines.append("no corpus: name a source, as in `python -m flows run documents.jsonl`")
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{path}: there is no such setting{nearest(fault['loc'])}")
        else:
            lines.append(f"{path or 'config'}: {fault['msg']}, found {fault['input']!r:.80}")
    return lines


def nearest(location: tuple[int | str, ...]) -> str:
    """`; did you mean 'steps'?` when a field of that table is close."""
    model: Any = InfoCSEIDC
    for part in location[:-1]:
        model = table_of(model.model_fields[str(part)].annotation)
    close = difflib.get_close_matches(str(location[-1]), list(model.model_fields), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(model.model_fields)}"


def table_of(annotation: Any) -> type[BaseModel]:
    """The model in `Model` or `Model | None`."""
    options = getattr(annotation, "__args__", (annotation,))
    return next(kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel))
