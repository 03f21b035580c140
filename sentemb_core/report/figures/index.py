"""Every figure of a run's report, by the panel it stands in."""

from collections.abc import Callable, Iterator

from sentemb_core.report.data import RunReport
from sentemb_core.report.drawing import Drawing, house_style
from sentemb_core.report.figures.clusters import cluster_drawings, stability_drawings
from sentemb_core.report.figures.evaluation import evaluation_drawings
from sentemb_core.report.figures.gain import recall_drawings
from sentemb_core.report.figures.learning import (
    geometry_drawings,
    overlap_drawings,
    projection_drawings,
    similarity_drawings,
    training_drawings,
)
from sentemb_core.report.figures.timings import timing_drawings

PANELS: dict[str, Callable[[RunReport], Iterator[Drawing]]] = {
    "recall": recall_drawings,
    "cluster_sizes": cluster_drawings,
    "stability": stability_drawings,
    "similarities": similarity_drawings,
    "geometry": geometry_drawings,
    "overlap": overlap_drawings,
    "projection": projection_drawings,
    "training": training_drawings,
    "evaluation": evaluation_drawings,
    "timings": timing_drawings,
}


def draw(report: RunReport) -> dict[str, list[Drawing]]:
    """Every panel that has something to show, by name."""
    with house_style():
        panels = {name: list(drawings(report)) for name, drawings in PANELS.items()}
    return {name: drawings for name, drawings in panels.items() if drawings}
