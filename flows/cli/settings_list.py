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
from tasks.checks import entry_of

MANY = 10
"""Choices above which the table does not list them: `sentemb methods` lists the methods."""

SOURCE = "SOURCE"

GENERAL = {
    "preset": "Settings from the method's paper or code, by name (`sentemb methods`).",
    "seed": "Seed of every part whose own seed is not set.",
}
"""Settings that stand for other settings, so no model has them."""


@dataclass(frozen=True)
class Setting:
    """A setting of a run.

    Attributes:
        path: As `--set` takes it.
        value: What the run has.
        type: JSON type, for example `integer or null`.
        choices: All values, if they are named.
        option: The option that sets it, if there is setting.
        meaning: The description in the model.
    """

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
    every = [*general_settings(options), *settings_in(run)]
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
    method = run.training.method.name
    if run.encoder.name == "static" and not entry_of(method).takes_static:
        remark(f"{method} needs a transformer: add --encoder, for example --encoder minilm.")
    show(
        table,
        "",
        "Set a value with `run ... --set PATH=VALUE`, or in a TOML file (--config).",
        "The values are those of a run with the same options: try `settings --method hicl "
        "--encoder minilm`,",
        "`settings --cycles 3` or `settings --initialiser conpono`.",
    )
    return 0


def general_settings(options: Mapping[str, Any]) -> Iterator[Setting]:
    for name, meaning in GENERAL.items():
        kind = {"preset": "string or null", "seed": "integer or null"}[name]
        yield Setting(name, options.get(name), kind, (), option_of(name), meaning)


def settings_in(table: BaseModel, above: str = "") -> Iterator[Setting]:
    """Settings of a table and of the tables in it; a method is a setting with settings below it."""
    schema = type(table).model_json_schema()
    for name, field in type(table).model_fields.items():
        value, path = getattr(table, name), above + name
        rules = schema["properties"][name]
        is_table = isinstance(value, BaseModel)
        choices = [*choices_in(rules)]
        name_path = path if name == "method" else f"{path}.name"
        if not is_table or choices:
            yield Setting(
                path=name_path if is_table else path,
                value=getattr(value, "name", None) if is_table else value,  # a method by its name
                type="string" if is_table else type_in(rules),
                choices=choices,
                option=option_of(path),
                meaning=field.description or schema_text(rules, schema),
            )
        if is_table:
            below = settings_in(value, f"{path}.")
            yield from (
                setting for setting in below if not choices or setting.path != f"{path}.name"
            )


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


def schema_text(rules: Json, schema: Json) -> str:
    """Description of the table that a field refers to."""
    references = [part["$ref"] for part in (rules, *rules.get("anyOf", [])) if "$ref" in part]
    name = references[0].rpartition("/")[2] if references else ""
    return schema.get("$defs", {}).get(name, {}).get("description", "").partition("\n")[0]


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
