"""A run's report as files: the page, its data, and every figure as a PNG."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from sentemb_core.report import legends, run_rows
from sentemb_core.report.data import CUTOFF, LINEAR_LOSS, READABLE, SMOOTHED, RunReport
from sentemb_core.report.drawing import Drawing, StoredDrawing, inline_svg, png
from sentemb_core.report.page import Chapter, document, macros

CHAPTERS = {
    "verdict": "Verdict",
    "choice": "How the retriever was chosen",
    "what_moved": "What moved",
    "before_and_after": "One document, before and after",
    "clusters": "Clusters",
    "similarities": "Similarities",
    "lexical_overlap": "Words against meaning",
    "projection": "Sentences on common axes",
    "training": "Training",
    "examples": "Best and worst pairs",
    "lost_queries": "Queries that the best encoder gets wrong",
    "evaluation": "On the evaluation suite",
    "data": "Data and quarantine",
    "timings": "Time and cache",
    "reproduce": "Reproduce this run",
}
"""Macro of `templates/run.html` -> title, in reading order; the name is the chapter's anchor.

A run that returns an encoder has no choice.
"""

DRAWN = (
    "recall",
    "cluster_sizes",
    "stability",
    "similarities",
    "geometry",
    "overlap",
    "projection",
    "training",
    "evaluation",
    "timings",
)
"""Panels with figures (`run_figures.PANELS`)."""

LISTED = "drawings.json"
"""In a folder of drawings: panel -> name and text of each."""

Drawings = Mapping[str, Sequence[Drawing | StoredDrawing]]


def chapters(report: RunReport, drawings: Drawings) -> dict[str, Markup]:
    """The content of every chapter; `drawings` are the report's own (`read_drawings`)."""
    content = macros(
        "run.html",
        report=report,
        drawings={name: drawings.get(name, ()) for name in DRAWN},
        rows=run_rows,
        kinds={row.kind for row in report.rounds},
        legends=legends,
        cutoff=CUTOFF,
        readable=READABLE,
        smoothed=SMOOTHED,
        linear_loss=LINEAR_LOSS,
    )
    shown = [name for name in CHAPTERS if report.retriever or name != "choice"]
    return {name: getattr(content, name)() for name in shown}


def run_page(report: RunReport, drawings: Drawings) -> str:
    """The whole page of a run, which unfolds below what a reader asks first.

    That is the verdict, and where encoders and not a retriever were judged, their scores.
    """
    opened = ["verdict"] if report.retriever else ["verdict", "what_moved"]
    sections = [
        Chapter(name.replace("_", "-"), CHAPTERS[name], content, folded=name not in opened)
        for name, content in chapters(report, drawings).items()
    ]
    return document(report.title, "Run report of sentemb", sections)


def checked(report: RunReport) -> RunReport:
    """Return the report with its values checked again: a `model_copy` brings unchecked ones."""
    return RunReport.model_validate(report.model_dump())


def write_drawings(report: RunReport, folder: Path) -> None:
    """Write every figure of a report as SVG (the element of a page) and as PNG."""
    from sentemb_core.report.run_figures import draw

    panels = draw(checked(report))
    for drawing in (drawing for drawings in panels.values() for drawing in drawings):
        (folder / f"{drawing.name}.svg").write_text(inline_svg(drawing), encoding="utf-8")
        (folder / f"{drawing.name}.png").write_bytes(png(drawing.figure))
    listed = {name: [(one.name, one.alt) for one in drawings] for name, drawings in panels.items()}
    (folder / LISTED).write_text(json.dumps(listed), encoding="utf-8")


def read_drawings(folder: Path) -> dict[str, list[StoredDrawing]]:
    """Return what `write_drawings` wrote, by panel."""
    listed: dict[str, list[tuple[str, str]]] = json.loads((folder / LISTED).read_text("utf-8"))
    return {
        panel: [
            StoredDrawing(name, alt, Markup((folder / f"{name}.svg").read_text("utf-8")))
            for name, alt in drawings
        ]
        for panel, drawings in listed.items()
    }


def write_report(report: RunReport, folder: Path, drawn: Path) -> Path:
    """Write report.html, report.json and figures/*.png, and return the path of report.html.

    Equal reports give equal bytes. No text of the data enters the name of a file. `drawn` is the
    folder of the report's figures (`write_drawings`).
    """
    report = checked(report)
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for picture in sorted(drawn.glob("*.png")):
        shutil.copyfile(picture, figures / picture.name)
    (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(run_page(report, read_drawings(drawn)), encoding="utf-8")
    return page
