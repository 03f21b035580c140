"""Empty axes of one size, and what several figures write beside them."""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sentemb_core.report.data import RoundRow
from sentemb_core.report.drawing import drawable

SIZE = (4.4, 2.9)
FLAT = 38
"""Characters that fit under an axis side by side."""


def canvas(size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.add_subplot()


def column(rows: Sequence[RoundRow], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows], dtype=float)


def name_places(axes: Axes, labels: Sequence[str]) -> None:
    """Names under their places, up to a colon: tables have them whole."""
    names = [drawable(label.partition(":")[0]) for label in labels]
    folded = [fill(name, 10) for name in names]
    widest = max((len(line) for name in folded for line in name.splitlines()), default=0)
    tilted = len(labels) * (widest + 1) > FLAT
    axes.set_xticks(
        range(len(labels)),
        names if tilted else folded,
        rotation=30 if tilted else 0,
        ha="right" if tilted else "center",
        fontsize=8,
    )
    axes.set_xlim(-0.5, len(labels) - 0.5)


def legend_above(axes: Axes) -> None:
    """At the height of the title, where no data is."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.02, 0.985), ncols=2, fontsize=8)
