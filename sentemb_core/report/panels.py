"""A page of panels: words, a picture, a table. Benchmarks and experiments write one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentemb_core.report.drawing import Drawing
from sentemb_core.report.markup import Html, join, legend, quoted, table, tag
from sentemb_core.report.page import Chapter, document
from sentemb_core.report.svg import inline_svg

SMALLEST = 0.6
"""Of its own width, to which a picture shrinks: below, its words cannot be read."""


@dataclass(frozen=True)
class Panel:
    """One chapter of the page.

    Attributes:
        title: In the contents.
        notes: Sentences above the rest.
        drawing: The picture, if there is one.
        reading: How to read the picture, in a sentence or two.
        head: Titles of the table's columns, the first that of its rows; none: no table.
        rows: Its lines.
        caption: What the rows are.
        numeric: Whether all columns but the first hold numbers, else words.
        legend: Titles of columns or rows and what they mean, a line each.
        command: What a person types to have it all again.
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
    """Write page.html; equal panels give equal bytes.

    Returns:
        Its path.
    """
    chapters = [
        Chapter(f"panel-{number}", panel.title, _content(panel))
        for number, panel in enumerate(panels, start=1)
    ]
    written = folder / "page.html"
    written.write_text(document(title, kind, chapters), encoding="utf-8")
    return written


def _content(panel: Panel) -> Html:
    notes = [tag("p", quoted(note)) for note in panel.notes]
    told = (
        [table(panel.caption, panel.head, panel.rows, numeric=panel.numeric)] if panel.head else []
    )
    drawn = [_picture(panel.drawing, panel.reading)] if panel.drawing else []
    typed = [tag("pre", tag("code", panel.command), class_="scroll")] if panel.command else []
    lines = [legend(panel.legend)] if panel.legend else []
    return join([*notes, *drawn, *told, *lines, *typed])


def _picture(drawing: Drawing, reading: str) -> Html:
    """As wide as it was made; on a narrow screen smaller, and then it scrolls."""
    inches = drawing.figure.get_figwidth()
    size = f"max-width: {inches:g}in; min-width: {SMALLEST * inches:g}in"
    svg = tag("div", inline_svg(drawing.figure, drawing.name, drawing.alt), style=size)
    box = tag("div", svg, class_="grid wide", role="region", tabindex=0, aria_label=drawing.alt)
    return tag("figure", box, tag("figcaption", reading) if reading else "", class_="panel")
