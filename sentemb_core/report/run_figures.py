"""Every figure of a run's report, by the panel that shows it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from textwrap import fill
from typing import Literal

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.corpus.validation_pool import Split
from sentemb_core.evaluation.round_values import Similarities
from sentemb_core.formats import percent
from sentemb_core.report.data import (
    CUTOFF,
    LINEAR_LOSS,
    SMOOTHED,
    Direction,
    Projection,
    RoundRow,
    RunReport,
    measured,
    seconds_by_stage,
)
from sentemb_core.report.drawing import (
    BLUE,
    GREEN,
    HUES,
    MARKERS,
    MUTED,
    VERMILLION,
    Drawing,
    drawable,
    house_style,
)
from sentemb_core.report.scores import scores_figure
from sentemb_core.types import StageTiming

Column = Literal["loss", "learning_rate", "gradient_norm"]
"""What is drawn of a training."""

SIZE = (4.4, 2.9)
FLAT = 38
"""Characters that fit under an axis in one line."""


def canvas(title: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(drawable(title))
    return figure, axes


def column(rows: Sequence[RoundRow], name: str) -> np.ndarray:
    return np.array([row.numbers.get(name) for row in rows], dtype=float)


def name_places(axes: Axes, labels: Sequence[str]) -> None:
    """Write the labels up to a colon under their marks; tables have the whole labels."""
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
    """Put the legend at the height of the title, above the data."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.02, 0.985), ncols=2, fontsize=8)


def recall_drawings(report: RunReport) -> Iterator[Drawing]:
    directions: tuple[Direction, ...] = ("forward", "backward")
    if not report.rounds:
        return
    for direction in directions:
        alt = f"R@{CUTOFF}, {getattr(report, direction)}, of every encoder of the run"
        yield Drawing(f"recall-{direction}", alt, recall(report, direction))


def recall(report: RunReport, direction: Direction) -> Figure:
    """The deciding Recall@k of all encoders on both splits, with fixed rows as lines."""
    figure, axes = canvas(getattr(report, direction))
    path = [row for row in report.rounds if row.kind != "control"]
    controls = [row for row in report.rounds if row.kind == "control"]

    def on(split: Split, rows: Sequence[RoundRow]) -> np.ndarray:
        return np.array([row.recall(split, direction) for row in rows], dtype=float)

    if direction == "forward":
        low, high = (
            np.array([getattr(row, end) for row in path], float) for end in ("low", "high")
        )
        axes.fill_between(range(len(path)), low, high, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(on("validation", path), color=BLUE, marker="o", linewidth=2, label="validation")
    axes.plot(
        on("test", path), color=VERMILLION, marker="s", markersize=4, linestyle=":", label="test"
    )
    both = zip(on("validation", controls), on("test", controls), strict=True)
    for place, (validation, test) in enumerate(both, start=len(path)):
        axes.plot(place, validation, color=BLUE, marker="D", markersize=7)
        axes.plot(place, test, color=VERMILLION, marker="D", markersize=4)
    lines = zip(on("validation", report.fixed), report.fixed, strict=True)
    _name_lines(axes, [(value, row.label) for value, row in lines if np.isfinite(value)])
    name_places(axes, [row.label for row in (*path, *controls)])
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"R@{CUTOFF}")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    return figure


def _name_lines(axes: Axes, lines: list[tuple[float, str]]) -> None:
    """Dashed horizontal lines with their names in the right margin, which never overlap."""
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


def stability_drawings(report: RunReport) -> Iterator[Drawing]:
    if kept := measured(report.rounds, "kept_share"):
        yield Drawing("kept-share", "Share of pairs kept, by round", kept_share(kept))
    if compared := measured(report.rounds, "churn"):
        yield Drawing("churn", "Adjusted Rand index to the round before", churn(compared))


def kept_share(rows: Sequence[RoundRow]) -> Figure:
    """Share of all pairs inside documents that became positives, and the warning line."""
    figure, axes = canvas("Pairs kept, %")
    shares = 100 * column(rows, "kept_share")
    bars = axes.bar(range(len(rows)), shares, color=BLUE, width=0.55)
    axes.bar_label(bars, [percent(row.numbers["kept_share"]) for row in rows], padding=2)
    if any(row.positives == "cluster" for row in rows):
        warning = f"warning above {percent(KEPT_SHARE_WARNING)}"
        axes.axhline(100 * KEPT_SHARE_WARNING, color=VERMILLION, linestyle="--", label=warning)
        legend_above(axes)
    axes.set_ylim(0, 109)
    axes.grid(visible=False, axis="x")
    name_places(axes, [row.label for row in rows])
    return figure


def churn(rows: Sequence[RoundRow]) -> Figure:
    """Adjusted Rand index of the clusters to those of the round before."""
    figure, axes = canvas("ARI to last")
    values = column(rows, "churn")
    axes.plot(values, color=GREEN, marker="D", linewidth=2)
    for place, value in enumerate(values):
        text = f"{value:.2f}"
        axes.annotate(text, (place, value), (0, 7), textcoords="offset points", ha="center")
    axes.set_ylim(min(0.0, values.min()), 1.09)
    name_places(axes, [row.label for row in rows])
    return figure


def cluster_drawings(report: RunReport) -> Iterator[Drawing]:
    shown = [row for row in report.rounds if row.cluster_sizes]
    widest = max((max(row.cluster_sizes) for row in shown), default=1)
    highest = max((max(row.cluster_sizes.values()) for row in shown), default=1)
    for index, row in enumerate(shown):
        alt = f"Clusters by size: {row.label}"
        yield Drawing(f"cluster-sizes-{index}", alt, cluster_sizes(row, widest, highest))


def cluster_sizes(row: RoundRow, widest: int, highest: int) -> Figure:
    """Histogram of cluster sizes, on scales that all rounds share."""
    figure, axes = canvas(row.label)
    axes.bar(list(row.cluster_sizes), list(row.cluster_sizes.values()), color=BLUE, width=0.8)
    axes.set_xlim(0.3, widest + 0.7)
    axes.set_ylim(0.7, highest * 1.5)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("sentences in the cluster")
    axes.set_ylabel("clusters (log scale)")
    return figure


NARROWEST = 0.1
"""Least span of both axes of the geometry, so that tiny changes look small."""


def similarity_drawings(report: RunReport) -> Iterator[Drawing]:
    """Under the first annotator, then under the encoder after each round."""
    shown: list[tuple[str, Similarities]] = []
    for row in report.rounds:
        if row.diagnostics and row.diagnostics.before and not shown:
            shown.append((f"before {row.label}", row.diagnostics.before))
        if row.diagnostics and row.diagnostics.after:
            shown.append((f"after {row.label}", row.diagnostics.after))
    sides = [side for _, one in shown for side in (one.positives, one.negatives)]
    highest = max((shares(side).max(initial=0.0) for side in sides), default=0.0) or 1.0
    for index, (label, histogram) in enumerate(shown):
        alt = f"Similarity of positives and of negatives: {label}"
        yield Drawing(f"similarities-{index}", alt, similarities(label, histogram, highest))


def similarities(label: str, histogram: Similarities, highest: float) -> Figure:
    """Histograms of positives (filled) and negatives (outline), each as a share of its pairs."""
    figure, axes = canvas(label)
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
    return figure


def shares(counts: Sequence[int]) -> np.ndarray:
    """Counts [n] in per cent of their sum; all zero for no counts."""
    return 100 * np.asarray(counts) / max(sum(counts), 1)


def geometry_drawings(report: RunReport) -> Iterator[Drawing]:
    moves = [
        (row.label, row.diagnostics.before, row.diagnostics.after)
        for row in report.rounds
        if row.diagnostics and row.diagnostics.before and row.diagnostics.after
    ]
    if moves:
        yield Drawing("geometry", "Alignment and uniformity, round by round", geometry(moves))


def geometry(moves: Sequence[tuple[str, Similarities, Similarities]]) -> Figure:
    """The alignment-uniformity plane (Wang and Isola, 2020), with an arrow for each round."""
    figure, axes = canvas("Alignment and uniformity")
    looks = zip(cycle(HUES), cycle(MARKERS), moves, strict=False)
    for hue, marker, (label, before, after) in looks:
        start, end = ((side.shape.uniformity, side.alignment) for side in (before, after))
        axes.plot(*start, marker=marker, color=hue, linestyle="", fillstyle="none")
        axes.plot(*end, marker=marker, color=hue, linestyle="", label=drawable(label))
        arrow = {"arrowstyle": "->", "color": MUTED, "shrinkA": 5, "shrinkB": 5}
        axes.annotate("", end, start, arrowprops=arrow)
    axes.margins(0.15)
    axes.set_xlim(*_at_least(*axes.get_xlim(), NARROWEST))
    axes.set_ylim(*_at_least(*axes.get_ylim(), NARROWEST))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.set_xlabel("uniformity (lower: spread out)")
    axes.set_ylabel("alignment (lower: pairs closer)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _at_least(low: float, high: float, span: float) -> tuple[float, float]:
    """The interval, widened to `span` around its middle if it is narrower."""
    half = max(high - low, span) / 2
    return (low + high) / 2 - half, (low + high) / 2 + half


def overlap_drawings(report: RunReport) -> Iterator[Drawing]:
    shown = [
        (row.label, row.diagnostics.jaccard, row.diagnostics.cosine)
        for row in report.rounds
        if row.diagnostics and row.diagnostics.before
    ]
    lowest = min((value for _, _, cosine in shown for value in cosine), default=0.0)
    for index, (label, jaccard, cosine) in enumerate(shown):
        alt = f"Shared words against cosine of sampled pairs: {label}"
        figure = overlap(label, jaccard, cosine, min(lowest, 0.0))
        yield Drawing(f"overlap-{index}", alt, figure)


def overlap(label: str, jaccard: Sequence[float], cosine: Sequence[float], lowest: float) -> Figure:
    """Sampled pairs: shared words (x) and cosine (y), which is drawn from `lowest` to 1."""
    figure, axes = canvas(label)
    axes.plot(jaccard, cosine, "o", color=BLUE, alpha=0.45, markersize=3.5, mew=0)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(lowest - 0.03, 1.03)
    axes.set_xlabel("shared words (Jaccard)")
    axes.set_ylabel("cosine")
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
    """Sentences on the common axes: the largest groups in colour, other sentences as dots."""
    figure, axes = canvas(points.label, (4.2, 3.5))
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
    return figure


def _wide(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def training_drawings(report: RunReport) -> Iterator[Drawing]:
    columns: tuple[Column, ...] = ("loss", "learning_rate", "gradient_norm")
    if not any(row.curve for row in report.rounds):
        return
    for column in columns:
        name = column.replace("_", " ").capitalize()
        alt = f"{name} by step of every training"
        yield Drawing(column.replace("_", "-"), alt, training(report.rounds, column))


def training(rows: Sequence[RoundRow], column: Column) -> Figure:
    """Loss or gradient norm (running means), or learning rate, by step, one line a training."""
    figure, axes = canvas(column.replace("_", " ").capitalize())
    dashes = cycle(["-", "--", "-.", ":"])
    trained = [(row.label, row.curve) for row in rows if row.curve]
    drawn = [0.0]
    for hue, dash, (label, curve) in zip(cycle(HUES), dashes, trained, strict=False):
        values = np.array(getattr(curve, column), dtype=float)
        if column != "learning_rate":
            values = running_mean(values, round(SMOOTHED * len(values)))
        axes.plot(curve.step, values, dash, color=hue, linewidth=1.4, label=drawable(label))
        drawn += values[np.isfinite(values)].tolist()
    if column == "loss" and max(drawn) > LINEAR_LOSS:
        axes.set_yscale("symlog", linthresh=LINEAR_LOSS)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylim(bottom=1.05 * min(drawn))  # the loss of IS-BERT is negative
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("step")
    figure.legend(loc="outside lower left", ncols=2, fontsize=8)
    return figure


def running_mean(
    values: Float64[np.ndarray, " steps"], width: int
) -> Float64[np.ndarray, " steps"]:
    """Mean of the `width` values around each value, without values that are not finite."""
    around = np.ones(max(1, width))
    known = np.isfinite(values)
    sums = np.convolve(np.where(known, values, 0.0), around, "same")
    counts = np.convolve(known, around, "same")
    return np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)


def evaluation_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.evaluation and (points := report.evaluation.points):
        alt = "Scores of this encoder and of other systems on the evaluation suite"
        yield Drawing("evaluation", alt, scores_figure(points))


def timing_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.timings:
        yield Drawing("timings", "Seconds by stage, slowest first", timings(report.timings))


def timings(stages: Sequence[StageTiming]) -> Figure:
    """Seconds by stage, slowest first."""
    totals = seconds_by_stage(stages)
    figure, axes = canvas("Where the time went", (4.4, 0.9 + 0.27 * len(totals)))
    names = [drawable(name) for name in totals]
    bars = axes.barh(range(len(names)), list(totals.values()), color=BLUE, height=0.6)
    axes.bar_label(bars, [f"{seconds:.1f} s" for seconds in totals.values()], padding=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds")
    return figure


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
