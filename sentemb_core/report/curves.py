"""Few-shot curves: a score over the number of labels, a line a method, a band of its seeds."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from sentemb_core.report.drawing import HUES, MARKERS, MUTED, drawable, house_style
from sentemb_core.types import Value

SIZE = (6.0, 4.2)
LETTERS = 68
"""Of a line of the title: as many as stand above the axes."""

ZERO = 0.45
"""Where no label stands on the logarithmic axis, in shares of the smallest count."""


class CurvePoint(Value):
    """One method with one number of labels: its score under every seed."""

    method: str
    labels: int
    scores: list[float]


def curves_figure(
    points: Sequence[CurvePoint], lines: Mapping[str, float], title: str, measure: str
) -> Figure:
    """Curves in the order of their first point; `lines` are fixed rows, drawn across."""
    counts = sorted({point.labels for point in points})
    place = {count: count or ZERO * min(filter(None, counts), default=1) for count in counts}
    with house_style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        methods = dict.fromkeys(point.method for point in points)
        for method, hue, marker in zip(methods, cycle(HUES), cycle(MARKERS), strict=False):
            own = sorted((p for p in points if p.method == method), key=lambda p: p.labels)
            means = np.array([np.mean(point.scores) for point in own])
            spread = np.array([np.std(point.scores, ddof=len(point.scores) > 1) for point in own])
            where = [place[point.labels] for point in own]
            axes.plot(where, means, marker=marker, color=hue, label=drawable(method))
            axes.fill_between(where, means - spread, means + spread, color=hue, alpha=0.15, lw=0)
        for (name, value), dashes in zip(lines.items(), cycle(("--", ":", "-.")), strict=False):
            axes.axhline(value, color=MUTED, linestyle=dashes, linewidth=1, label=drawable(name))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([place[count] for count in counts]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{count:,}" for count in counts])
        axes.set_xlabel("labelled pairs (logarithmic, but for 0)")
        axes.set_ylabel(measure)
        axes.set_title(fill(title, LETTERS))
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure
