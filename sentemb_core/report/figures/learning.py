"""Figures of what training did to the vectors, and of the trainings themselves."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Literal

import numpy as np
from jaxtyping import Float64
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sentemb_core.report.data import (
    Curve,
    Move,
    PairPoints,
    Projection,
    RunReport,
    Similarities,
)
from sentemb_core.report.drawing import BLUE, HUES, MARKERS, MUTED, VERMILLION, Drawing, drawable
from sentemb_core.report.figures.canvas import canvas, legend_above

LINEAR_LOSS = 0.1
"""Below, a loss is drawn linearly: a training that memorises its pairs reaches zero."""

SMOOTHED = 0.05
"""Share of a training's steps whose mean loss is drawn: batch by batch, lines hide each other, and
by .02 those of rounds and controls still do."""

NARROWEST = 0.1
"""Of either axis of the geometry: a span of thousandths would look like a journey."""


def similarity_drawings(report: RunReport) -> Iterator[Drawing]:
    sides = [side for row in report.similarities for side in (row.positives, row.negatives)]
    highest = max((shares(side).max(initial=0.0) for side in sides), default=0.0) or 1.0
    for index, row in enumerate(report.similarities):
        alt = f"Similarity of positives and of negatives: {row.label}"
        yield Drawing(f"similarities-{index}", alt, similarities(row, highest))


def similarities(histogram: Similarities, highest: float) -> Figure:
    """Positives filled, negatives outlined, each as a share of its own pairs, on one scale."""
    figure, axes = canvas()
    edges = np.asarray(histogram.edges)
    axes.stairs(
        shares(histogram.negatives), edges, color=VERMILLION, linestyle="--", linewidth=1.6,
        label="negatives",
    )  # fmt: skip
    positives = shares(histogram.positives)
    axes.stairs(positives, edges, color=BLUE, fill=True, alpha=0.35)
    axes.stairs(positives, edges, color=BLUE, linewidth=1.6, label="positives")
    axes.set_ylim(0, highest * 1.08)
    axes.set_xlabel("similarity")
    axes.set_ylabel("% of the pairs")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    legend_above(axes)
    axes.set_title(drawable(histogram.label))
    return figure


def shares(counts: Sequence[int]) -> np.ndarray:
    """Counts [n] as per cent of their sum [n]; all zero when there is nothing."""
    return 100 * np.asarray(counts) / max(sum(counts), 1)


def geometry_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.moves:
        yield Drawing(
            "geometry", "Alignment and uniformity, round by round", geometry(report.moves)
        )


def geometry(moves: Sequence[Move]) -> Figure:
    """The alignment-uniformity plane (Wang and Isola, 2020): an arrow from before to after."""
    figure, axes = canvas()
    for hue, marker, move in zip(cycle(HUES), cycle(MARKERS), moves, strict=False):
        start, end = ((place.uniformity, place.alignment) for place in (move.before, move.after))
        axes.plot(*start, marker=marker, color=hue, linestyle="", fillstyle="none")
        axes.plot(*end, marker=marker, color=hue, linestyle="", label=drawable(move.label))
        arrow = {"arrowstyle": "->", "color": MUTED, "shrinkA": 5, "shrinkB": 5}
        axes.annotate("", end, start, arrowprops=arrow)
    axes.margins(0.15)
    axes.set_xlim(*_at_least(*axes.get_xlim(), NARROWEST))
    axes.set_ylim(*_at_least(*axes.get_ylim(), NARROWEST))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.set_xlabel("uniformity (lower: spread out)")
    axes.set_ylabel("alignment (lower: pairs closer)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title("Alignment and uniformity")
    return figure


def _at_least(low: float, high: float, span: float) -> tuple[float, float]:
    """The same middle, wider if it was narrower than `span`."""
    half = max(high - low, span) / 2
    return (low + high) / 2 - half, (low + high) / 2 + half


def overlap_drawings(report: RunReport) -> Iterator[Drawing]:
    lowest = min((min(row.cosine, default=0.0) for row in report.overlaps), default=0.0)
    for index, row in enumerate(report.overlaps):
        alt = f"Shared words against cosine of sampled pairs: {row.label}"
        yield Drawing(f"overlap-{index}", alt, overlap(row, min(lowest, 0.0)))


def overlap(points: PairPoints, lowest: float) -> Figure:
    """Sampled pairs: shared words to the right, cosine up, from `lowest` to 1 in every round."""
    figure, axes = canvas()
    axes.plot(points.jaccard, points.cosine, "o", color=BLUE, alpha=0.45, markersize=3.5, mew=0)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(lowest - 0.03, 1.03)
    axes.set_xlabel("shared words (Jaccard)")
    axes.set_ylabel("cosine")
    axes.set_title(drawable(points.label))
    return figure


def projection_drawings(report: RunReport) -> Iterator[Drawing]:
    x = [value for row in report.projections for value in row.x]
    y = [value for row in report.projections for value in row.y]
    if x:
        limits = (*_wide(min(x), max(x)), *_wide(min(y), max(y)))
        for index, row in enumerate(report.projections):
            alt = f"Sentences on the two common axes: {row.label}"
            yield Drawing(f"projection-{index}", alt, projection(row, limits))


def projection(points: Projection, limits: tuple[float, float, float, float]) -> Figure:
    """Sentences on the common axes; the largest groups in colour and shape, the rest dots."""
    figure, axes = canvas((4.2, 3.5))
    groups = np.asarray(points.group)
    x, y = np.asarray(points.x), np.asarray(points.y)
    found, sizes = np.unique(groups, return_counts=True)
    named = found[np.argsort(-sizes, kind="stable")][: len(HUES)]
    rest = ~np.isin(groups, named)
    axes.plot(x[rest], y[rest], ".", color=MUTED, alpha=0.5, markersize=3)
    for group, hue, marker in zip(named, HUES, cycle(MARKERS), strict=False):
        own = groups == group
        axes.plot(x[own], y[own], marker, color=hue, alpha=0.8, markersize=5, mew=0)
    axes.set_xlim(limits[0], limits[1])
    axes.set_ylim(limits[2], limits[3])
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.grid(visible=False)
    axes.set_xlabel("first common axis")
    axes.set_ylabel("second common axis")
    axes.set_title(drawable(points.label))
    return figure


def _wide(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def training_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.curves:
        yield Drawing("loss", "Loss by step of every training", training(report.curves, "loss"))
        rates = training(report.curves, "learning_rate")
        yield Drawing("learning-rate", "Learning rate by step of every training", rates)
        norms = training(report.curves, "gradient_norm")
        yield Drawing("gradient-norm", "Gradient norm by step of every training", norms)


def training(
    curves: Sequence[Curve], column: Literal["loss", "learning_rate", "gradient_norm"]
) -> Figure:
    """Loss or gradient norm (running means) or learning rate by step, one line a training."""
    figure, axes = canvas()
    dashes = cycle(["-", "--", "-.", ":"])
    drawn = [0.0]
    for hue, dash, curve in zip(cycle(HUES), dashes, curves, strict=False):
        values = np.array(getattr(curve, column), dtype=float)
        if column != "learning_rate":
            values = running_mean(values, round(SMOOTHED * len(values)))
        axes.plot(curve.step, values, dash, color=hue, linewidth=1.4, label=drawable(curve.label))
        drawn += values[np.isfinite(values)].tolist()
    if column == "loss" and max(drawn) > LINEAR_LOSS:
        axes.set_yscale("symlog", linthresh=LINEAR_LOSS)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylim(bottom=1.05 * min(drawn))  # IS-BERT's loss is below 0
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("step")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    axes.set_title(column.replace("_", " ").capitalize())
    return figure


def running_mean(
    values: Float64[np.ndarray, " steps"], width: int
) -> Float64[np.ndarray, " steps"]:
    """Mean of the `width` values around each, of fewer at the ends and beside what is no number."""
    around = np.ones(max(1, width))
    known = np.isfinite(values)
    sums = np.convolve(np.where(known, values, 0.0), around, "same")
    counts = np.convolve(known, around, "same")
    return np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
