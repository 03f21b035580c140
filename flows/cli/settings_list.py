"""`python -m flows settings`: every setting of a run, from the schema of its models."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.cli.settings import by_path, parse_value, settings
from flows.cli.settings_errors import option_of, paths_in, similar
from sentemb_core.config.run import InfoCSEPlus
from sentemb_core.console import emit, plain, remark, show
from sentemb_core.errors import UsageError
from sentemb_core.types import Json

MANY = 10
"""Choices above which the table does not list them: `sentemb methods` lists the methods."""

SOURCE = "SOURCE"

GENERAL = {
    "preset": ("string", "Settings from the method's paper or code, by name (`sentemb methods`)."),
    "seed": ("integer", "Seed of every part whose own seed is not set."),
}
"""Type and meaning of the settings that stand for other settings, so no model has them."""


@dataclass(frozen=True)
class Setting:
    """A setting of a run: its path for `--set`, value, JSON type, named values and option."""

    path: str
    value: Any
    type: str
    choices: Sequence[str]
    option: str | None
    meaning: str


def settings_command(
    path: str | None,
    options: Mapping[str, Any],
    file: Path | None,
    overrides: Sequence[str],
    as_json: bool,
) -> int:
    """Show the settings at and below a path, of the run that the other arguments describe."""
    run = settings(file, {"corpus.source": SOURCE} | by_path(options), overrides)
    general = [
        Setting(name, options.get(name), f"{kind} or null", (), option_of(name), meaning)
        for name, (kind, meaning) in GENERAL.items()
    ]
    every = [*general, *settings_in(run)]
    below = f"{path}." if path else ""
    chosen = [setting for setting in every if f"{setting.path}.".startswith(below)]
    if not chosen:
        if path and path in paths_in(InfoCSEPlus):
            raise UsageError(
                f"{path}: a run with these options does not have this setting. Add the option that "
                "brings it: --method infocse_idc, --cycles N or --initialiser NAME."
            )
        known = [*GENERAL, *paths_in(type(run)), *(setting.path for setting in every)]
        raise UsageError(f"{path}: unknown setting{similar(str(path), known)}")
    if as_json:
        emit([asdict(setting) for setting in chosen])
        return 0
    from rich.table import Table

    table = Table("path", "value", "meaning", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    first_path: dict[str, str] = {}
    for setting in chosen:
        first = first_path.setdefault(setting.meaning, setting.path)
        text = meaning_of(setting) if first == setting.path else f"As {first}."
        table.add_row(setting.path, plain(value_of(setting)), plain(text))
    method = run.training.method
    if run.encoder.name == "static" and method.encoder != "any":
        remark(f"{method.name} needs a transformer: add --encoder, for example --encoder minilm.")
    show(
        table,
        "",
        "Set a value with `run ... --set PATH=VALUE`, or in a TOML file (--config).",
        "The values are those of a run with the same options: try `settings --method hicl "
        "--encoder minilm`,",
        "`settings --cycles 3` or `settings --initialiser conpono`.",
    )
    return 0


def settings_in(table: BaseModel, above: str = "") -> Iterator[Setting]:
    """Settings of a table and of the tables in it; a method is a setting with settings below it."""
    schema = type(table).model_json_schema()["properties"]
    for name, field in type(table).model_fields.items():
        value, path, rules = getattr(table, name), above + name, schema[name]
        choices, option = [*choices_in(rules)], option_of(path)
        meaning = " ".join((field.description or "").split())
        if not isinstance(value, BaseModel):
            yield Setting(path, value, type_in(rules), choices, option, meaning)
            continue
        own = path if name == "method" else f"{path}.name"
        if choices:  # a method, by its name
            yield Setting(own, getattr(value, "name", None), "string", choices, option, meaning)
        for setting in settings_in(value, f"{path}."):
            if not choices or setting.path != f"{path}.name":
                yield setting


def choices_in(rules: Json) -> Iterator[str]:
    """Names that a value may have: of an enumeration, or of alternative tables."""
    yield from rules.get("enum", [])
    yield from rules.get("discriminator", {}).get("mapping", {})
    for part in (*rules.get("anyOf", []), *([rules["items"]] if "items" in rules else [])):
        yield from choices_in(part)


def type_in(rules: Json) -> str:
    """`integer or null`; a table that may be absent is a `table or null`."""
    if "anyOf" in rules:
        return " or ".join(dict.fromkeys(map(type_in, rules["anyOf"])))
    return rules.get("type") or ("string" if "const" in rules else "table")


def value_of(setting: Setting) -> str:
    """The value as `--set PATH=` takes it."""
    if setting.value == SOURCE:
        return "(required)" if setting.path == "corpus.source" else "(name of the corpus)"
    value = setting.value
    bare = isinstance(value, str) and value and parse_value(value.strip()) == value
    return value if bare else json.dumps(value, ensure_ascii=False)


def meaning_of(setting: Setting) -> str:
    choices = f"{', '.join(setting.choices)}. " if 0 < len(setting.choices) <= MANY else ""
    return f"{choices}{setting.meaning}{f' ({setting.option})' if setting.option else ''}"
