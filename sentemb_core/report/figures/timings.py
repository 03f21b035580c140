"""The figure of the time that a run took."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from sentemb_core.report.data import RunReport, StageTiming
from sentemb_core.report.drawing import BLUE, Drawing, drawable
from sentemb_core.report.figures.canvas import canvas


def timing_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.timings:
        yield Drawing("timings", "Seconds by stage, slowest first", timings(report.timings))


def timings(stages: Sequence[StageTiming]) -> Figure:
    """Seconds by stage, slowest first."""
    totals = seconds_by_stage(stages)
    figure, axes = canvas((4.4, 0.9 + 0.27 * len(totals)))
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
