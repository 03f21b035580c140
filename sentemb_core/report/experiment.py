"""The figure of an experiment: curves if its arms are on an axis, else a mark for each arm."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter
from pydantic import Field

from sentemb_core.report.drawing import BLUE, HUES, MUTED, VERMILLION, drawable, house_style
from sentemb_core.types import Value

WIDTH, HEIGHT, LINE = 3.1, 3.0, 0.27
"""Inches: width of a panel, height of a panel of curves, height of an arm."""

ACROSS = 3
"""Panels side by side; more would be too small to read."""

MOST_TICKS = 8
"""Ticks on an axis: with fewer settings, each has a tick of its own."""

PAPER = "the paper"


class Mark(Value):
    """One arm in one column: its score for every seed, and the number of the paper."""

    column: str
    arm: str
    x: float | None
    curve: str = ""
    values: list[float]
    paper: float | None
    printed: str = Field(default="", description="Title of the paper's column; empty: as `column`.")


def experiment_figure(marks: Sequence[Mark], title: str, axis: str | None) -> Figure:
    """Return a figure with one panel per column, in the order of their first mark.

    `axis` is the title of the x axis, None without one. A curve of the paper has its own panel,
    because its data and its range differ.
    """
    if axis:
        marks = [mark for column in _columns(marks) for mark in (*column, *_printed(column))]
    columns = _columns(marks)
    arms = list(dict.fromkeys(mark.arm for mark in marks))
    with house_style():
        across = min(len(columns), ACROSS)
        lines = -(-len(columns) // ACROSS)
        height = HEIGHT if axis else 0.9 + LINE * len(arms)
        size = (max(WIDTH * across, 2 * WIDTH) + (0 if axis else 1.2), height * lines)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, across, squeeze=False).ravel()
        for number, (axes, column) in enumerate(zip(panels, columns, strict=False)):
            if axis:
                _curves(axes, column)
                axes.set_xlabel(axis)
                axes.ticklabel_format(axis="y", useOffset=False)
            else:
                _marks(axes, column, arms, named=number % across == 0)
            axes.set_title(drawable(column[0].column))
        for axes in panels[len(columns) :]:
            axes.set_axis_off()
        figure.suptitle(title, fontsize=10)
        if axis:
            _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """One legend below all panels, with each label once."""
    named = [axes.get_legend_handles_labels() for axes in figure.axes]
    shown = {label: handle for pair in named for handle, label in zip(*pair, strict=True)}
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=3, fontsize=8
    )


def _columns(marks: Sequence[Mark]) -> list[list[Mark]]:
    names = dict.fromkeys(mark.column for mark in marks)
    return [[mark for mark in marks if mark.column == name] for name in names]


def _printed(column: Sequence[Mark]) -> list[Mark]:
    """The paper's numbers as marks of their own column, if they form a curve."""
    placed = [mark for mark in column if mark.x is not None and mark.paper is not None]
    if len(placed) < 2:
        return []
    return [
        mark.model_copy(
            update={
                "column": f"{mark.printed or mark.column}: {PAPER}",
                "curve": mark.curve or PAPER,
                "values": [mark.paper],
            }
        )
        for mark in placed
    ]


def _curves(axes: Axes, marks: Sequence[Mark]) -> None:
    """Draw curves, and a dashed line for each arm without x."""
    placed = sorted((mark for mark in marks if mark.x is not None), key=lambda mark: mark.x or 0)
    hues = cycle((BLUE, *HUES[2:]))
    names = list(dict.fromkeys(mark.curve for mark in placed))
    for name in names:
        hue = VERMILLION if name == PAPER else next(hues)
        _curve(axes, [mark for mark in placed if mark.curve == name], hue)
    where = np.array(sorted({mark.x for mark in placed if mark.x is not None}))
    if len(where) > 1 and np.diff(where).min() > np.ptp(where) / MOST_TICKS:
        axes.set_xticks(where)
    for mark in marks:
        if mark.x is None:
            level, label = float(np.mean(mark.values)), drawable(mark.arm)
            axes.axhline(level, color=next(hues), linestyle="--", linewidth=1, label=label)


def _curve(axes: Axes, placed: Sequence[Mark], hue: str) -> None:
    """Draw the mean over x, with a band of one standard deviation over seeds."""
    where = np.array([mark.x for mark in placed], dtype=float)
    means = np.array([np.mean(mark.values) for mark in placed])
    spread = np.array([np.std(mark.values, ddof=len(mark.values) > 1) for mark in placed])
    if len(where) > 2 and where.min() > 0 and where.max() / where.min() > 50:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.plot(where, means, marker="o", color=hue, label=drawable(placed[0].curve or "ours"))
    axes.fill_between(where, means - spread, means + spread, color=hue, alpha=0.18, lw=0)


def _marks(axes: Axes, marks: Sequence[Mark], arms: Sequence[str], *, named: bool) -> None:
    """Draw a line for each arm: seeds as dots, their mean as a bar."""
    for mark in marks:
        place = arms.index(mark.arm)
        fixed = len(set(mark.values)) == 1 and len(mark.values) > 1
        hue = MUTED if fixed else BLUE
        axes.plot(mark.values, [place] * len(mark.values), "o", ms=3.5, color=hue, alpha=0.55)
        axes.plot(float(np.mean(mark.values)), place, "|", ms=11, mew=2, color=hue)
    labels = [drawable(arm) for arm in arms] if named else [""] * len(arms)
    axes.set_yticks(range(len(arms)), labels)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))  # with more, labels touch
