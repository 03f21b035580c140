"""The report as files: the page, its data, and every figure as a picture."""

from pathlib import Path

from sentemb_core.report.data import RunReport
from sentemb_core.report.figures.index import draw
from sentemb_core.report.page import page
from sentemb_core.report.svg import png


def write_report(report: RunReport, folder: Path) -> Path:
    """Write report.html, report.json and figures/*.png; equal reports give equal bytes.

    File names are ours alone: no text of the data enters them.

    Returns:
        The path of report.html.
    """
    report = RunReport.model_validate(report.model_dump())  # a model_copy brings unchecked values
    drawings = draw(report)
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for drawing in (drawing for panel in drawings.values() for drawing in panel):
        (figures / f"{drawing.name}.png").write_bytes(png(drawing.figure))
    (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    written = folder / "report.html"
    written.write_text(page(report, drawings), encoding="utf-8")
    return written
