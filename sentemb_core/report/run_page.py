"""A run's report as files: the page, its data, and every figure as a PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from sentemb_core.report import legends, run_rows
from sentemb_core.report.data import CUTOFF, READABLE, RunReport
from sentemb_core.report.drawing import Drawing, png
from sentemb_core.report.page import Chapter, document, macros
from sentemb_core.report.run_figures import LINEAR_LOSS, PANELS, SMOOTHED, draw

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
    "lost_queries": "Queries that went wrong",
    "evaluation": "On the evaluation suite",
    "data": "Data and quarantine",
    "timings": "Time and cache",
    "reproduce": "Reproduce this run",
}
"""Macro of `templates/run.html` -> title, in reading order; the name is the chapter's anchor.

A run that returns an encoder has no choice.
"""

Drawings = Mapping[str, Sequence[Drawing]]


def chapters(report: RunReport, drawings: Drawings) -> dict[str, Markup]:
    """The content of every chapter; `drawings` are the report's own (`run_figures.draw`)."""
    content = macros(
        "run.html",
        report=report,
        drawings={name: drawings.get(name, ()) for name in PANELS},
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
        Chapter(
            name.replace("_", "-"),
            CHAPTERS[name],
            content,
            folded=name not in opened,
        )
        for name, content in chapters(report, drawings).items()
    ]
    return document(report.title, "Run report of sentemb", sections)


def write_report(report: RunReport, folder: Path) -> Path:
    """Write report.html, report.json and figures/*.png, and return the path of report.html.

    Equal reports give equal bytes. No text of the data enters the name of a file.
    """
    report = RunReport.model_validate(report.model_dump())  # a model_copy brings unchecked values
    drawings = draw(report)
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for drawing in (drawing for panel in drawings.values() for drawing in panel):
        (figures / f"{drawing.name}.png").write_bytes(png(drawing.figure))
    (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(run_page(report, drawings), encoding="utf-8")
    return page
