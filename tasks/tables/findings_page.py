"""An experiment's findings as files: a page to read, a picture, JSON for programs."""

import json
from collections.abc import Sequence
from pathlib import Path

from sentemb_core.config.experiments import Arm, Column
from sentemb_core.evaluation.paper_tables import PaperTable
from sentemb_core.report.drawing import Drawing
from sentemb_core.report.experiment import Mark, experiment_figure
from sentemb_core.report.panels import Panel, write_panels
from sentemb_core.report.svg import png
from tasks.tables.findings_table import FindingsTable, difference

WHAT_CELLS_HOLD = "Mean ± standard deviation over the seeds [the paper's number, if it has one]"

READ_CURVES = (
    "A line is the mean over the seeds, its band their standard deviation; dashed lines have no "
    "place on the axis. What the paper printed has a panel of its own: other data, another height."
)
READ_MARKS = (
    "A dot is one seed, a bar the mean over them, grey what no seed changes. Every panel has a "
    "scale of its own."
)


def write_findings(told: FindingsTable, folder: Path) -> Path:
    """table.json, page.html, and table.png if there is a number."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(told.json(), indent=1, ensure_ascii=False) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8")
    title = f"{told.what.id}: {told.title}"
    drawing = None
    if shown := marks(told):
        figure = experiment_figure(shown, title, told.what.axis)
        drawing = Drawing("table", f"{told.title}, as in the table below", figure)
        (folder / "table.png").write_bytes(png(figure))
    reading = READ_CURVES if told.what.axis else READ_MARKS
    panels = [
        claims_panel(told),
        Panel("Table", [], drawing, reading, told.header, told.lines(), WHAT_CELLS_HOLD),
        *map(paper_panel, told.printed.tables),
        Panel("How it was made", told.notes(), command=told.command),
    ]
    write_panels(title, "An experiment of sentemb", panels, folder)
    return folder


def claims_panel(told: FindingsTable) -> Panel:
    """A line for each claim."""
    if not told.fates:
        return Panel("Claims", ["The paper claims nothing about it."])
    rows = [(one.fate, one.text, difference(one)) for one in told.fates]
    head = ("at our scale", "the claim", "the difference that decides, 95 %")
    caption = "What the paper says, and what we found"
    return Panel("Claims", head=head, rows=rows, caption=caption, numeric=False)


def paper_panel(table: PaperTable) -> Panel:
    """All that the paper printed, what stands beside ours and the rest."""
    columns = list(dict.fromkeys(name for row in table.rows.values() for name in row))
    rows: list[Sequence[str]] = [
        [label, *(f"{row[name]:g}" if name in row else "" for name in columns)]
        for label, row in table.rows.items()
    ]
    caption = f"As printed: {table.measure}"
    notes = [table.note] if table.note else []
    return Panel(table.source, notes, head=["", *columns], rows=rows, caption=caption)


def marks(told: FindingsTable) -> list[Mark]:
    """What the picture shows."""
    return [
        mark(told, arm, column, values)
        for arm in told.what.arms
        for column in told.what.columns
        if (values := told.values(arm, column))
    ]


def mark(told: FindingsTable, arm: Arm, column: Column, values: list[float]) -> Mark:
    """A cell as a point; columns that lie on the axis are the points of their arm's curve."""
    if column.x is not None:
        return Mark(
            column=told.what.title,
            arm=f"{arm.label}, {column.label}",
            x=column.x,
            curve=arm.label,
            values=values,
            paper=None,
        )
    return Mark(
        column=column.heading,
        arm=arm.label,
        x=arm.x,
        curve=arm.curve,
        values=values,
        paper=told.printed.of_row(arm, column),
        printed=told.printed.heading(column),
    )
