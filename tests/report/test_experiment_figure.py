"""The figure of an experiment: curves on an axis, marks without one, and the paper's curve."""

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sentemb_core.report.drawing import png
from sentemb_core.report.experiment import Mark, experiment_figure


def mark(arm: str, x: float | None, *values: float, **changes: object) -> Mark:
    given = {"column": "News R@5", "arm": arm, "x": x, "values": list(values), "paper": None}
    return Mark.model_validate(given | changes)


CURVE = [
    mark("0", None, 0.3, 0.32),
    *(mark(str(x), x, 0.4 + x, 0.42 + x, paper=80 + x) for x in (0.1, 0.2, 0.4)),
]


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_a_curve_has_mean_band_fixed_line_and_paper():
    figure = experiment_figure(CURVE, "paper.t1: Shares", "share of tokens masked")
    ours, theirs = figure.axes
    assert ours.get_xlabel() == "share of tokens masked"
    curve, line = ours.get_lines()
    assert curve.get_ydata().tolist() == pytest.approx([0.51, 0.61, 0.81])
    assert line.get_linestyle() == "--"
    assert len(ours.collections) == 1  # the band
    assert theirs.get_lines()[0].get_ydata().tolist() == [80.1, 80.2, 80.4]
    assert legend_of(figure) == ["ours", "0", "the paper"]
    assert theirs.get_title(loc="left") == "News R@5: the paper"
    assert len(png(figure)) > 5_000


def test_a_curve_has_one_legend_entry_for_all_columns():
    marks = [
        mark(f"{curve} {x}", x, 0.5, column=column, curve=curve)
        for column in ("a", "b")
        for curve in ("MLM", "both")
        for x in (1, 2)
    ]
    figure = experiment_figure(marks, "t", "x")
    assert len(figure.axes) == 2
    assert legend_of(figure) == ["MLM", "both"]


def test_many_columns_wrap_to_the_next_line():
    marks = [mark("simcse", None, 0.5, column=str(k)) for k in range(5)]
    panels = experiment_figure(marks, "t", None).axes
    assert [axes.axison for axes in panels] == [True] * 5 + [False]
    named = [bool(axes.get_yticklabels()[0].get_text()) for axes in panels[:5]]
    assert named == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("settings", "each"), [((1, 2), True), ((16, 24, 32, 40), True), ((32, 64, 128, 512), False)]
)
def test_every_setting_has_a_tick_if_there_is_room(settings: tuple[int, ...], each: bool):
    marks = [mark(str(one), one, 0.5) for one in settings]
    (axes,) = experiment_figure(marks, "t", "anchors of a document").axes
    assert (axes.get_xticks().tolist() == list(settings)) is each


def test_distant_settings_have_a_logarithmic_axis():
    far = [mark(str(x), x, 0.5) for x in (1e-5, 1e-3, 1e-1)]
    figure = experiment_figure(far, "t", "weight")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    png(figure)  # labels are written when the figure is drawn
    written = {label.get_text() for label in axes.get_xticklabels()}
    assert {"0.001", "0.1"} <= written, "as numbers, not as the source of a formula"


def test_without_an_axis_an_arm_is_a_line_of_dots():
    marks = [mark("simcse", None, 0.4, 0.5, 0.6), mark("bce", None, 0.2)]
    (axes,) = experiment_figure(marks, "t", None).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["simcse", "bce"]
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in dots] == [3, 1]


def test_few_numbers_stand_below_a_panel_so_that_none_touch():
    marks = [mark("declutr", None, 0.6818, 0.7178), mark("simcse", None, 0.7)]
    (axes,) = experiment_figure(marks, "t", None).axes
    low, high = axes.get_xlim()
    assert 2 < len([tick for tick in axes.get_xticks() if low <= tick <= high]) < 7


@pytest.mark.parametrize(
    "block", ["blog_usgov, static", "product_amazon_google, transformer", "sessions, minilm"]
)
def test_title_and_legend_lie_apart_and_inside(block: str):
    marks = [
        mark(f"{method}, {labels} labels", labels, 0.4, 0.5, curve=method)
        for method in ("no method", "infocse_plus", "conpono", "infocse_idc", "mirror_bert")
        for labels in (0, 100, 1_000)
    ]
    title = f"{block}: document → title, 1,000 test queries, 3 seeds"
    figure = experiment_figure(marks, title, "labels")
    FigureCanvasAgg(figure).draw()
    (above,) = figure.findobj(lambda one: isinstance(one, Text) and "queries" in one.get_text())
    boxes = [
        one.get_window_extent() for one in (above, figure.axes[0].xaxis.label, figure.legends[0])
    ]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.width
