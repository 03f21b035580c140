"""Figures of what annotation found: sizes of clusters, pairs kept, and what still changes."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.formats import percent
from sentemb_core.report.data import ClusterSizes, RoundRow, RunReport
from sentemb_core.report.drawing import BLUE, GREEN, VERMILLION, Drawing, drawable
from sentemb_core.report.figures.canvas import canvas, column, legend_above, name_places


def stability_drawings(report: RunReport) -> Iterator[Drawing]:
    if kept := [row for row in report.rounds if row.kept_share is not None]:
        yield Drawing("kept-share", "Share of pairs kept, by round", kept_share(kept))
    if compared := [row for row in report.rounds if row.churn is not None]:
        yield Drawing("churn", "Adjusted Rand index to the round before", churn(compared))


def kept_share(rows: Sequence[RoundRow]) -> Figure:
    """Share of all pairs inside documents that became positives, and where clusters say little."""
    figure, axes = canvas()
    shares = 100 * column(rows, "kept_share")
    bars = axes.bar(range(len(rows)), shares, color=BLUE, width=0.55)
    axes.bar_label(bars, [percent(row.kept_share) for row in rows], padding=2)
    if any(row.positives == "cluster" for row in rows):
        warning = f"warning above {percent(KEPT_SHARE_WARNING)}"
        axes.axhline(100 * KEPT_SHARE_WARNING, color=VERMILLION, linestyle="--", label=warning)
        legend_above(axes)
    axes.set_ylim(0, 109)
    axes.grid(visible=False, axis="x")
    name_places(axes, [row.label for row in rows])
    axes.set_title("Pairs kept, %")
    return figure


def churn(rows: Sequence[RoundRow]) -> Figure:
    """Agreement of the clusters with those of the round before (adjusted Rand index)."""
    figure, axes = canvas()
    values = column(rows, "churn")
    axes.plot(values, color=GREEN, marker="D", linewidth=2)
    for place, value in enumerate(values):
        text = f"{value:.2f}"
        axes.annotate(text, (place, value), (0, 7), textcoords="offset points", ha="center")
    axes.set_ylim(min(0.0, values.min()), 1.09)
    name_places(axes, [row.label for row in rows])
    axes.set_title("ARI to last")
    return figure


def cluster_drawings(report: RunReport) -> Iterator[Drawing]:
    widest = max((max(row.sizes, default=1) for row in report.cluster_sizes), default=1)
    highest = max((max(row.counts, default=1) for row in report.cluster_sizes), default=1)
    for index, row in enumerate(report.cluster_sizes):
        alt = f"Clusters by size: {row.label}"
        yield Drawing(f"cluster-sizes-{index}", alt, cluster_sizes(row, widest, highest))


def cluster_sizes(histogram: ClusterSizes, widest: int, highest: int) -> Figure:
    """How many clusters have each size; sizes and counts on scales that all rounds share."""
    figure, axes = canvas()
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
