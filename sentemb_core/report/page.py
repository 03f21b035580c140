"""One self-contained HTML page out of chapters: the templates, and the markup of single cells."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sentemb_core import formats
from sentemb_core.report.drawing import inline_svg

TEMPLATES = Path(__file__).with_name("templates")


class Chapter(NamedTuple):
    """A part of a page; the contents link to its anchor."""

    anchor: str
    title: str
    content: Markup


def document(title: str, kind: str, chapters: Sequence[Chapter]) -> str:
    """The whole page: its title, what kind of page it is, and its chapters in order."""
    styles = Markup((TEMPLATES / "styles.css").read_text(encoding="utf-8"))
    template = templates().get_template("document.html")
    return template.render(title=title, kind=kind, chapters=chapters, styles=styles)


def macros(template: str, **context: Any) -> Any:
    """The macros of a template, which see the values of this context."""
    return templates().get_template(template).make_module(context)


@cache
def templates() -> Environment:
    """The templates of this folder. Every text is escaped, a misspelt name is an error."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    numbers = (formats.decimal, formats.percent, formats.count, formats.duration, formats.change)
    filters: Any = environment.filters
    filters |= {number.__name__: number for number in (*numbers, formats.counted)}
    values: Any = environment.globals
    values["svg"] = inline_svg
    return environment


def quoted(text: str) -> Markup:
    """A text of the corpus, whose writing direction does not leave its cell."""
    return Markup("<bdi>{}</bdi>").format(text)


def code(text: str) -> Markup:
    """A value to copy."""
    return Markup("<code><bdi>{}</bdi></code>").format(text)
