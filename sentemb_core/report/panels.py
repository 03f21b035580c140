"""A page of panels, each with notes, a figure and a table: benchmarks and experiments write one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentemb_core.report.drawing import Drawing
from sentemb_core.report.page import Chapter, document, macros


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
