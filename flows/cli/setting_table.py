"""What `python -m flows settings` says: paths, defaults, meanings."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from flows.cli.setting_list import WITHOUT_DEFAULT, Setting, settings_at, settings_of
from flows.cli.setting_paths import option_of
from flows.cli.settings import literal
from sentemb_core.console import emit, plain, show
from sentemb_core.types import Json

MANY = 10
"""Values, above which they are not listed: methods have a list of their own."""


def settings_command(path: str | None, method: str, as_json: bool) -> int:
    found = settings_at(path, method) if path else settings_of(method)
    if as_json:
        emit([record(one) for one in found if not one.is_table])
        return 0
    from rich.table import Table

    table = Table("path", "default", "meaning", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for one, meaning in zip(found, meanings(found), strict=True):
        style = "bold" if one.is_table else None
        table.add_row(one.path, plain("\n".join(default_lines(one))), plain(meaning), style=style)
    show(table, "", *notes(found, method))
    return 0


def record(one: Setting) -> Json:
    """A setting for programs."""
    return {
        "path": one.path,
        "default": one.default,
        "default_by_start_encoder": one.defaults,
        "default_with_cycles": one.with_cycles,
        "type": one.type,
        "choices": one.choices or None,
        "option": option_of(one.path),
        "runs": one.runs,
        "meaning": one.meaning,
    }


def default_lines(one: Setting) -> Iterator[str]:
    """The default as `--set` takes it, a line for each kind of start encoder if they differ."""
    if one.is_table:
        return
    told = {start: typed(value) for start, value in one.defaults.items()}
    first, *others = dict.fromkeys(told.values())
    if others:
        yield from (f"{start}: {value}" for start, value in told.items())
    elif one.path in WITHOUT_DEFAULT:
        yield WITHOUT_DEFAULT[one.path]
    else:
        yield f"null (or {kind_told(one)})" if one.default is None else first
    if typed(one.with_cycles) != first:
        yield f"with --cycles: {typed(one.with_cycles)}"


def kind_told(one: Setting) -> str:
    """What can stand in place of null."""
    kind = one.type.removesuffix(" or null")
    return "a name" if kind == "str" else f"{'an' if kind == 'int' else 'a'} {kind}"


def typed(value: Any) -> str:
    """A value as a person types it behind `--set PATH=`."""
    bare = isinstance(value, str) and value and literal(value.strip()) == value
    return value if bare else json.dumps(value, ensure_ascii=False)


def meanings(found: Sequence[Setting]) -> Iterator[str]:
    """Of each setting, with its values and option; what an earlier one says is not repeated."""
    said: dict[tuple[Any, ...], str] = {}
    for one in found:
        key = (one.path.split(".")[-1], one.meaning, one.choices)
        first = said.setdefault(key, one.path)
        values = f"{', '.join(one.choices)}. " if 0 < len(one.choices) <= MANY else ""
        short = option_of(one.path)
        whole = f"{values}{one.meaning}{f' ({short})' if short else ''}"
        again = f"As {first}{f' ({short})' if short else ''}."
        yield min(whole, again, key=len) if first != one.path else whole


def notes(found: Sequence[Setting], method: str) -> Iterator[str]:
    """What a reader of these settings must know besides."""
    yield "Set one by `run ... --set PATH=VALUE`, or in a TOML file (--config)."
    if any(re.search(r"[Ss]eed 00\d", one.meaning) for one in found):
        yield 'mutual to 004 are the five papers (README.md, "The papers\' experiments").'
    tables = dict.fromkeys(one.path.split(".")[0] for one in found)
    if any(len(set(map(typed, one.defaults.values()))) > 1 for one in found):
        yield (
            "Start encoders (--encoder): static (as word vectors train), transformer, pretrained "
            "(minilm, a Hugging Face name)."
        )
    for runs in dict.fromkeys(one.runs for one in found if one.runs != "all"):
        its = dict.fromkeys(one.path.split(".")[0] for one in found if one.runs == runs)
        yield f"Only in runs of {runs}: {', '.join(its)}."
    if "labels" in tables:
        yield "labels judge in every run; fine_tune, and runs with --cycles, learn from them, too."
    if "initialiser" in tables:
        yield "initialiser.* want one: where its method is none, name it (--initialiser NAME)."
    if any(one.path == "training.method" for one in found):
        yield (
            f"training.method.* are those of {method}; --method NAME tells those of another "
            "(`sentemb methods`)."
        )
