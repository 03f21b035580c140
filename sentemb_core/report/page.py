"""Self-contained HTML pages out of chapters or panels, and the markup of single cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sentemb_core import formats
from sentemb_core.report.drawing import Drawing, inline_svg

TEMPLATES = Path(__file__).with_name("templates")


class Chapter(NamedTuple):
    """A part of a page; the contents link to its anchor. A folded one shows its title alone."""

    anchor: str
    title: str
    content: Markup
    folded: bool = False


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


@dataclass(frozen=True)
class Panel:
    """One chapter of the page.

    Attributes:
        title: In the contents.
        notes: Sentences above the rest.
        drawing: The figure, if there is one.
        reading: How to read the figure, in a sentence or two.
        head: Titles of the table's columns, first that of the rows; empty: no table.
        rows: The rows of the table.
        caption: What the rows are.
        numeric: Whether all columns except the first hold numbers.
        legend: Title of a column or row -> what it means.
        command: The command that makes the content again.
    """

    title: str
    notes: Sequence[str] = ()
    drawing: Drawing | None = None
    reading: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    numeric: bool = True
    legend: Mapping[str, str] = field(default_factory=dict[str, str])
    command: str = ""


def write_panels(title: str, kind: str, panels: Sequence[Panel], folder: Path) -> Path:
    """Write page.html into the folder and return its path; equal panels give equal bytes."""
    content = macros("panels.html").panel
    chapters = [
        Chapter(f"panel-{number}", panel.title, content(panel))
        for number, panel in enumerate(panels, start=1)
    ]
    page = folder / "page.html"
    page.write_text(document(title, kind, chapters), encoding="utf-8")
    return page
