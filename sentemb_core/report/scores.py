"""The picture of a benchmark: a panel a group, a line a task, a mark and its interval a system."""

from collections.abc import Sequence
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict

from sentemb_core.report.figures import HUES, MARKERS, MUTED, RULE, drawable, house_style

WIDTH, LINE = 7.2, 0.34
"""Inches."""

SPREAD = 0.7
"""Of a task's line, over which its systems' marks lie."""


class Point(BaseModel):
    """One system on one task; shares and correlations, drawn times 100."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    panel: str
    task: str
    system: str
    fixed: bool
    value: float
    low: float
    high: float


def scores_figure(points: Sequence[Point]) -> Figure:
    """Panels, tasks and systems in the order of their first point; fixed systems are grey."""
    panels = list(dict.fromkeys(point.panel for point in points))
    systems = {point.system: point.fixed for point in points}
    tasks = [len({one.task for one in points if one.panel == panel}) for panel in panels]
    with house_style():
        height = 0.9 + sum(LINE * (count + 1.6) for count in tasks)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        ratios = [count + 0.6 for count in tasks]
        columns = figure.subplots(len(panels), 1, squeeze=False, height_ratios=ratios)
        for axes, panel in zip(columns[:, 0], panels, strict=True):
            _panel(axes, panel, [one for one in points if one.panel == panel], systems)
        named = [handle for axes in columns[:, 0] for handle in axes.containers]
        legend = {handle.get_label(): handle for handle in named}
        shown = [drawable(system) for system in systems]
        figure.legend(
            [legend[name] for name in shown], shown, loc="outside lower center", ncols=3, fontsize=8
        )
    return figure


def _panel(axes: Axes, name: str, points: Sequence[Point], systems: dict[str, bool]) -> None:
    tasks = list(dict.fromkeys(point.task for point in points))
    looks = _looks(systems)
    present = [system for system in systems if any(one.system == system for one in points)]
    for place, system in enumerate(present):
        own = [point for point in points if point.system == system]
        shift = SPREAD * ((place + 0.5) / len(present) - 0.5)
        hue, marker = looks[system]
        values = [100 * point.value for point in own]
        below = [100 * max(point.value - point.low, 0) for point in own]
        above = [100 * max(point.high - point.value, 0) for point in own]
        axes.errorbar(
            values, [tasks.index(point.task) + shift for point in own], xerr=[below, above],
            fmt=marker, color=hue, markersize=4.5, elinewidth=1.1, label=drawable(system),
            markerfacecolor="white" if systems[system] else hue,
        )  # fmt: skip
    for line in range(1, len(tasks)):
        axes.axhline(line - 0.5, color=RULE, linewidth=0.6)
    axes.set_yticks(range(len(tasks)), [drawable(task) for task in tasks])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_title(name)


def _looks(systems: dict[str, bool]) -> dict[str, tuple[str, str]]:
    """Colour and marker: grey signs for fixed rows, a hue for every model."""
    hues, markers, signs = cycle(HUES), cycle(MARKERS), cycle("xos")
    return {
        system: (MUTED, next(signs)) if fixed else (next(hues), next(markers))
        for system, fixed in systems.items()
    }
