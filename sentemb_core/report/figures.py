"""The pictures of a report: one function a panel, each returns a matplotlib figure.

No pyplot, so no global figure list; colours are the names of PALETTE, which the page replaces by
its own variables so that a figure follows the reader's light or dark mode (svg.py).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import cycle, pairwise
from textwrap import fill
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from sentemb_core.formats import percent
from sentemb_core.idc.stats import KEPT_SHARE_WARNING
from sentemb_core.report.data import (
    ClusterSizes,
    Curve,
    PairPoints,
    Projection,
    RoundRow,
    RunReport,
    Similarities,
    StageTiming,
)

INK, MUTED, RULE = "#1c2329", "#5b6670", "#d9dee2"
BLUE, VERMILLION, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#e69f00"
PURPLE, SKY, OLIVE, ROSE = "#8f5fa8", "#56b4e9", "#7a7a1f", "#cc79a7"
PALETTE = {
    "ink": INK,
    "muted": MUTED,
    "rule": RULE,
    "blue": BLUE,
    "vermillion": VERMILLION,
    "green": GREEN,
    "orange": ORANGE,
    "purple": PURPLE,
    "sky": SKY,
    "olive": OLIVE,
    "rose": ROSE,
}
"""After Okabe and Ito (2008), told apart by the colour-blind; shapes and lines differ as well."""

HUES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, OLIVE, ROSE)
MARKERS = "osD^vPX"
"""One fewer than the hues: beside each other they give 56 looks before one comes again."""

SIZE = (4.4, 2.9)
LONGEST_LABEL = 32
FLAT = 38
"""Characters that fit under an axis side by side."""

LINEAR_LOSS = 0.1
"""Below, a loss is drawn linearly: a training that memorises its pairs reaches zero."""

NARROWEST = 0.1
"""Of the uniformity axis: a span of thousandths would look like a journey."""


STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "sentemb",
}


@contextmanager
def house_style() -> Generator[None]:
    """Figures are made and saved under these settings, whatever the machine's matplotlibrc says."""
    with mpl.rc_context(STYLE):
        yield


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its file and the words for those who do not see it."""

    name: str
    alt: str
    figure: Figure


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def drawable(label: str, longest: int = LONGEST_LABEL) -> str:
    """The label on one short line, `?` for what the figures' font lacks; tables have it whole."""
    line = " ".join(label.split())
    short = line if len(line) <= longest else line[: longest - 3] + "..."
    return "".join(c if ord(c) in _glyphs() else "?" for c in short)


def recall(report: RunReport, direction: Literal["forward", "backward"]) -> Figure:
    """Recall@cutoff of every encoder on both splits, the fixed rows as lines, the control apart."""
    figure, axes = _canvas()
    path = [row for row in report.rounds if row.kind != "control"]
    controls = [row for row in report.rounds if row.kind == "control"]

    def on(row: Any, split: str) -> float:
        value = getattr(getattr(row, split), direction).get(report.cutoff)
        return np.nan if value is None else value

    if direction == "forward":
        low, high = _column(path, "low"), _column(path, "high")
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
    _name_places(axes, [row.label for row in (*path, *controls)])
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"R@{report.cutoff}")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    axes.set_title(drawable(getattr(report, direction)))
    return figure


def cluster_sizes(histogram: ClusterSizes, widest: int, highest: int) -> Figure:
    """How many clusters have each size; sizes and counts on scales that all rounds share."""
    figure, axes = _canvas()
    axes.bar(histogram.sizes, histogram.counts, color=BLUE, width=0.8)
    axes.set_xlim(0.3, widest + 0.7)
    axes.set_ylim(0.7, highest * 1.5)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("sentences in the cluster")
    axes.set_ylabel("clusters (log scale)")
    axes.set_title(drawable(histogram.label))
    return figure


def kept_share(rows: Sequence[RoundRow]) -> Figure:
    """Share of all pairs inside documents that became positives, and where clusters say little."""
    figure, axes = _canvas()
    shares = 100 * _column(rows, "kept_share")
    bars = axes.bar(range(len(rows)), shares, color=BLUE, width=0.55)
    axes.bar_label(bars, [percent(row.kept_share) for row in rows], padding=2)
    if any(row.positives == "cluster" for row in rows):
        warning = f"warning above {percent(KEPT_SHARE_WARNING)}"
        axes.axhline(100 * KEPT_SHARE_WARNING, color=VERMILLION, linestyle="--", label=warning)
        _legend_above(axes)
    axes.set_ylim(0, 109)
    axes.grid(visible=False, axis="x")
    _name_places(axes, [row.label for row in rows])
    axes.set_title("Pairs kept, %")
    return figure


def churn(rows: Sequence[RoundRow]) -> Figure:
    """Agreement of the clusters with those of the round before (adjusted Rand index)."""
    figure, axes = _canvas()
    values = _column(rows, "churn")
    axes.plot(values, color=GREEN, marker="D", linewidth=2)
    for place, value in enumerate(values):
        text = f"{value:.2f}"
        axes.annotate(text, (place, value), (0, 7), textcoords="offset points", ha="center")
    axes.set_ylim(min(0.0, values.min()), 1.09)
    _name_places(axes, [row.label for row in rows])
    axes.set_title("ARI to last")
    return figure


def similarities(histogram: Similarities, highest: float) -> Figure:
    """Positives filled, negatives outlined, each as a share of its own pairs, on one scale."""
    figure, axes = _canvas()
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
    _legend_above(axes)
    axes.set_title(drawable(histogram.label))
    return figure


def shares(counts: Sequence[int]) -> np.ndarray:
    """Counts [n] as per cent of their sum [n]; all zero when there is nothing."""
    return 100 * np.asarray(counts) / max(sum(counts), 1)


def geometry(rows: Sequence[RoundRow]) -> Figure:
    """The alignment-uniformity plane (Wang and Isola, 2020): one arrow a round, lower is better."""
    figure, axes = _canvas()
    x, y = _column(rows, "uniformity"), _column(rows, "alignment")
    for hue, marker, row, right, up in zip(cycle(HUES), cycle(MARKERS), rows, x, y, strict=False):
        axes.plot(right, up, marker=marker, color=hue, linestyle="", label=drawable(row.label))
    path = [place for place, row in enumerate(rows) if row.kind != "control"]
    for start, end in pairwise(path):
        arrow = {"arrowstyle": "->", "color": MUTED, "shrinkA": 5, "shrinkB": 5}
        axes.annotate("", (x[end], y[end]), (x[start], y[start]), arrowprops=arrow)
    axes.margins(0.15)
    axes.set_xlim(*_at_least(*axes.get_xlim(), NARROWEST))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.set_xlabel("uniformity (lower: spread out)")
    axes.set_ylabel("alignment (lower: pairs closer)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title("Alignment and uniformity")
    return figure


def overlap(points: PairPoints, lowest: float) -> Figure:
    """Sampled pairs: shared words to the right, cosine up, from `lowest` to 1 in every round."""
    figure, axes = _canvas()
    axes.plot(points.jaccard, points.cosine, "o", color=BLUE, alpha=0.45, markersize=3.5, mew=0)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(lowest - 0.03, 1.03)
    axes.set_xlabel("shared words (Jaccard)")
    axes.set_ylabel("cosine")
    axes.set_title(drawable(points.label))
    return figure


def projection(points: Projection, limits: tuple[float, float, float, float]) -> Figure:
    """Sentences on the common axes; the largest groups in colour and shape, the rest dots."""
    figure, axes = _canvas((4.2, 3.5))
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


def training(curves: Sequence[Curve], column: Literal["loss", "learning_rate"]) -> Figure:
    """Loss or learning rate by step, one line a training."""
    figure, axes = _canvas()
    dashes = cycle(["-", "--", "-.", ":"])
    for hue, dash, curve in zip(cycle(HUES), dashes, curves, strict=False):
        values = np.array(getattr(curve, column), dtype=float)
        axes.plot(curve.step, values, dash, color=hue, linewidth=1.4, label=drawable(curve.label))
    highest = max((value or 0.0 for curve in curves for value in getattr(curve, column)), default=0)
    if column == "loss" and highest > LINEAR_LOSS:
        axes.set_yscale("symlog", linthresh=LINEAR_LOSS)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("step")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    axes.set_title(column.replace("_", " ").capitalize())
    return figure


def timings(stages: Sequence[StageTiming]) -> Figure:
    """Seconds by stage, slowest first."""
    totals = seconds_by_stage(stages)
    figure, axes = _canvas((4.4, 0.9 + 0.27 * len(totals)))
    names = [drawable(name) for name in totals]
    bars = axes.barh(range(len(names)), list(totals.values()), color=BLUE, height=0.6)
    axes.bar_label(bars, [f"{seconds:.1f} s" for seconds in totals.values()], padding=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds")
    axes.set_title("Where the time went")
    return figure


def seconds_by_stage(stages: Sequence[StageTiming]) -> dict[str, float]:
    """Sum of the seconds of every stage, slowest first."""
    totals: dict[str, float] = {}
    for timing in stages:
        totals[timing.stage] = totals.get(timing.stage, 0.0) + timing.seconds
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def draw(report: RunReport) -> dict[str, list[Drawing]]:
    """Every panel that has something to show, by name."""
    with house_style():
        panels = {name: list(drawings(report)) for name, drawings in _PANELS.items()}
    return {name: drawings for name, drawings in panels.items() if drawings}


def _recall_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.rounds:
        for direction in ("forward", "backward"):
            alt = f"R@{report.cutoff}, {getattr(report, direction)}, of every encoder of the run"
            yield Drawing(f"recall-{direction}", alt, recall(report, direction))


def _cluster_drawings(report: RunReport) -> Iterator[Drawing]:
    widest = max((max(row.sizes, default=1) for row in report.cluster_sizes), default=1)
    highest = max((max(row.counts, default=1) for row in report.cluster_sizes), default=1)
    for index, row in enumerate(report.cluster_sizes):
        alt = f"Clusters by size: {row.label}"
        yield Drawing(f"cluster-sizes-{index}", alt, cluster_sizes(row, widest, highest))


def _stability_drawings(report: RunReport) -> Iterator[Drawing]:
    if kept := [row for row in report.rounds if row.kept_share is not None]:
        yield Drawing("kept-share", "Share of pairs kept, by round", kept_share(kept))
    if compared := [row for row in report.rounds if row.churn is not None]:
        yield Drawing("churn", "Adjusted Rand index to the round before", churn(compared))


def _similarity_drawings(report: RunReport) -> Iterator[Drawing]:
    sides = [side for row in report.similarities for side in (row.positives, row.negatives)]
    highest = max((shares(side).max(initial=0.0) for side in sides), default=0.0) or 1.0
    for index, row in enumerate(report.similarities):
        alt = f"Similarity of positives and of negatives: {row.label}"
        yield Drawing(f"similarities-{index}", alt, similarities(row, highest))


def _geometry_drawings(report: RunReport) -> Iterator[Drawing]:
    rows = [row for row in report.rounds if None not in (row.alignment, row.uniformity)]
    if rows:
        yield Drawing("geometry", "Alignment and uniformity of every encoder", geometry(rows))


def _overlap_drawings(report: RunReport) -> Iterator[Drawing]:
    lowest = min((min(row.cosine, default=0.0) for row in report.overlaps), default=0.0)
    for index, row in enumerate(report.overlaps):
        alt = f"Shared words against cosine of sampled pairs: {row.label}"
        yield Drawing(f"overlap-{index}", alt, overlap(row, min(lowest, 0.0)))


def _projection_drawings(report: RunReport) -> Iterator[Drawing]:
    x = [value for row in report.projections for value in row.x]
    y = [value for row in report.projections for value in row.y]
    if x:
        limits = (*_wide(min(x), max(x)), *_wide(min(y), max(y)))
        for index, row in enumerate(report.projections):
            alt = f"Sentences on the two common axes: {row.label}"
            yield Drawing(f"projection-{index}", alt, projection(row, limits))


def _training_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.curves:
        yield Drawing("loss", "Loss by step of every training", training(report.curves, "loss"))
        rates = training(report.curves, "learning_rate")
        yield Drawing("learning-rate", "Learning rate by step of every training", rates)


def _timing_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.timings:
        yield Drawing("timings", "Seconds by stage, slowest first", timings(report.timings))


_PANELS: dict[str, Callable[[RunReport], Iterator[Drawing]]] = {
    "recall": _recall_drawings,
    "cluster_sizes": _cluster_drawings,
    "stability": _stability_drawings,
    "similarities": _similarity_drawings,
    "geometry": _geometry_drawings,
    "overlap": _overlap_drawings,
    "projection": _projection_drawings,
    "training": _training_drawings,
    "timings": _timing_drawings,
}


def _canvas(size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.add_subplot()


def _column(rows: Sequence[RoundRow], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows], dtype=float)


def _wide(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _at_least(low: float, high: float, span: float) -> tuple[float, float]:
    """The same middle, wider if it was narrower than `span`."""
    half = max(high - low, span) / 2
    return (low + high) / 2 - half, (low + high) / 2 + half


def _name_places(axes: Axes, labels: Sequence[str]) -> None:
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


def _legend_above(axes: Axes) -> None:
    """At the height of the title, where no data is."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.02, 0.985), ncols=2, fontsize=8)


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
