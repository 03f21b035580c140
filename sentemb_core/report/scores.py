"""The figure of a benchmark: a panel a group, a line a task, a mark with its interval a system."""

from collections.abc import Sequence
from itertools import cycle
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sentemb_core.report.data import Point
from sentemb_core.report.drawing import HUES, MARKERS, MUTED, RULE, drawable, house_style

WIDTH, LINE, MARK = 7.2, 0.34, 0.09
"""Inches: width of the figure, height of a task's name, height of a system's mark."""

SPREAD = 0.7
"""Share of a task's line that its marks cover."""

LONGEST_NAME, LETTERS, LEGEND = 72, 24, 96
"""Characters: of a name, of its lines beside an axis, of a line of the legend."""

Looks = dict[str, tuple[str, str]]
"""System -> colour and marker."""


def scores_figure(points: Sequence[Point]) -> Figure:
    """Panels, tasks and systems in the order of their first point; fixed systems are grey."""
    panels = [
        [point for point in points if point.panel == name]
        for name in dict.fromkeys(point.panel for point in points)
    ]
    looks = _looks({point.system: point.fixed for point in points})
    with house_style():
        names = [drawable(system, LONGEST_NAME) for system in looks]
        across = min(max(LEGEND // max(map(len, names)), 1), 3)
        heights = [_height(panel) for panel in panels]
        below = 0.4 + LINE / 2 * -(-len(names) // across)
        size = (WIDTH, sum(heights) + LINE * len(panels) + below)
        figure = Figure(figsize=size, layout="constrained")
        columns = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        marks: dict[str, Line2D] = {}
        for axes, panel in zip(columns[:, 0], panels, strict=True):
            marks |= _panel(axes, panel, looks)
        figure.legend(
            [marks[system] for system in looks], names,
            loc="outside lower center", ncols=across, fontsize=8,
        )  # fmt: skip
    return figure


def _height(points: Sequence[Point]) -> float:
    """Height of a panel in inches, with room for the names and for a mark of each system."""
    tasks = {point.task for point in points}
    lines = max(2, *(len(_name(task).splitlines()) for task in tasks))
    systems = len({point.system for point in points})
    return (len(tasks) + 0.6) * max(LINE / 2 * lines, MARK * systems)


def _name(task: str) -> str:
    """The whole name, on several lines."""
    return fill(drawable(task, LONGEST_NAME), LETTERS, break_on_hyphens=False)


def _panel(axes: Axes, points: Sequence[Point], looks: Looks) -> dict[str, Line2D]:
    """Draw a panel and return the mark of each system."""
    tasks = list(dict.fromkeys(point.task for point in points))
    present = [system for system in looks if any(one.system == system for one in points)]
    marks: dict[str, Line2D] = {}
    for place, system in enumerate(present):
        own = [point for point in points if point.system == system]
        shift = SPREAD * ((place + 0.5) / len(present) - 0.5)
        hue, marker = looks[system]
        values = [100 * point.value for point in own]
        below = [100 * max(point.value - point.low, 0) for point in own]
        above = [100 * max(point.high - point.value, 0) for point in own]
        marks[system] = axes.errorbar(
            values, [tasks.index(point.task) + shift for point in own], xerr=[below, above],
            fmt=marker, color=hue, markersize=4.5, elinewidth=1.1,
            markerfacecolor="white" if own[0].fixed else hue,
        ).lines[0]  # fmt: skip
    for line in range(1, len(tasks)):
        axes.axhline(line - 0.5, color=RULE, linewidth=0.6)
    axes.set_yticks(range(len(tasks)), [_name(task) for task in tasks])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_title(points[0].panel)
    return marks


def _looks(systems: dict[str, bool]) -> Looks:
    """Grey markers for fixed rows, a colour and a marker for each other system."""
    hues, markers, signs = cycle(HUES), cycle(MARKERS), cycle("xos")
    return {
        system: (MUTED, next(signs)) if fixed else (next(hues), next(markers))
        for system, fixed in systems.items()
    }
