"""Figures of what moved: the scores of every encoder of a run."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sentemb_core.report.data import CUTOFF, RunReport
from sentemb_core.report.drawing import BLUE, MUTED, VERMILLION, Drawing, drawable
from sentemb_core.report.figures.canvas import canvas, column, name_places


def recall_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.rounds:
        for direction in ("forward", "backward"):
            alt = f"R@{CUTOFF}, {getattr(report, direction)}, of every encoder of the run"
            yield Drawing(f"recall-{direction}", alt, recall(report, direction))


def recall(report: RunReport, direction: Literal["forward", "backward"]) -> Figure:
    """The deciding Recall@k of all encoders on both splits: fixed rows as lines, controls apart."""
    figure, axes = canvas()
    path = [row for row in report.rounds if row.kind != "control"]
    controls = [row for row in report.rounds if row.kind == "control"]

    def on(row: Any, split: str) -> float:
        value = getattr(getattr(row, split), direction).get(CUTOFF)
        return np.nan if value is None else value

    if direction == "forward":
        low, high = column(path, "low"), column(path, "high")
        axes.fill_between(range(len(path)), low, high, color=BLUE, alpha=0.18, linewidth=0)
    validation = [on(row, "validation") for row in path]
    axes.plot(validation, color=BLUE, marker="o", linewidth=2, label="validation")
    test = [on(row, "test") for row in path]
    axes.plot(test, color=VERMILLION, marker="s", markersize=4, linestyle=":", label="test")
    for place, row in enumerate(controls, start=len(path)):
        axes.plot(place, on(row, "validation"), color=BLUE, marker="D", markersize=7)
        axes.plot(place, on(row, "test"), color=VERMILLION, marker="D", markersize=4)
    lines = [(on(row, "validation"), row.label) for row in report.fixed]
    _name_lines(axes, [(value, label) for value, label in lines if np.isfinite(value)])
    name_places(axes, [row.label for row in (*path, *controls)])
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"R@{CUTOFF}")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    axes.set_title(drawable(getattr(report, direction)))
    return figure


def _name_lines(axes: Axes, lines: list[tuple[float, str]]) -> None:
    """Dashed horizontals, their names in the right margin and never on top of each other."""
    lowest = -np.inf
    gap = 0.075 * max([axes.get_ylim()[1], *(value for value, _ in lines)])
    for value, label in sorted(lines):
        axes.axhline(value, color=MUTED, linestyle=(0, (5, 3)), linewidth=1)
        lowest = max(value, lowest + gap)
        axes.annotate(
            f"{drawable(label)} {value:.3f}",
            (1, lowest),
            (5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8,
            annotation_clip=False,
        )
