"""A page of panels: words, a picture, a table. Benchmarks and experiments write one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb_core.report.figures import Drawing
from sentemb_core.report.markup import Html, join, quoted, table, tag
from sentemb_core.report.page import Chapter, document
from sentemb_core.report.svg import inline_svg


@dataclass(frozen=True)
class Panel:
    """One chapter of the page.

    Attributes:
        title: In the contents.
        notes: Sentences above the rest.
        drawing: The picture, if there is one.
        head: Titles of the table's columns, the first that of its rows; none: no table.
        rows: Its lines.
        caption: What the rows are.
        numeric: Whether all columns but the first hold numbers, else words.
    """

    title: str
    notes: Sequence[str] = ()
    drawing: Drawing | None = None
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    numeric: bool = True


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
    picture = panel.drawing
    drawn = [inline_svg(picture.figure, picture.name, picture.alt)] if picture else []
    shown = [tag("figure", tag("div", *drawn, class_="grid wide"), class_="panel")] if drawn else []
    told = (
        [table(panel.caption, panel.head, panel.rows, numeric=panel.numeric)] if panel.head else []
    )
    return join([*notes, *shown, *told])
