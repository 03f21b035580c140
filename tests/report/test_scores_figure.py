"""The figure of a benchmark: its marks, intervals and names, for any text."""

import io
from itertools import pairwise

import pytest
from matplotlib.image import imread
from matplotlib.lines import Line2D

from sentemb_core.report.data import Point
from sentemb_core.report.drawing import png
from sentemb_core.report.scores import scores_figure

SYSTEMS = {"BM25": True, "random": True, "a": False, "b": False}


def point(panel: str, task: str, system: str, value: float = 0.5) -> Point:
    bounds = {"value": value, "low": value - 0.1, "high": value + 0.05}
    return Point(panel=panel, task=task, system=system, fixed=SYSTEMS.get(system, False), **bounds)


@pytest.fixture(scope="module")
def points() -> list[Point]:
    retrieval = [point("R", f"r{k}", name, k / 10) for k in range(3) for name in SYSTEMS]
    return [*retrieval, *(point("S", f"s{k}", name) for k in range(2) for name in "ab")]


def test_a_panel_a_group_with_a_line_a_task(points):
    figure = scores_figure(points)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["R", "S"]
    lines = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert lines == [["r0", "r1", "r2"], ["s0", "s1"]]


def test_every_system_has_one_name_and_its_values(points):
    figure = scores_figure(points)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(SYSTEMS)
    assert [len(axes.containers) for axes in figure.axes] == [4, 2]
    marks = figure.axes[0].containers[2][0]
    assert marks.get_xdata().tolist() == pytest.approx([0, 10, 20])


def test_an_interval_is_drawn_to_scale(points):
    bars = scores_figure(points).axes[0].containers[0][2][0].get_segments()
    assert bars[1][:, 0].tolist() == pytest.approx([0, 15])


def test_marks_of_one_line_do_not_cover_each_other(points):
    axes = scores_figure(points).axes[0]
    heights = [container[0].get_ydata()[0] for container in axes.containers]
    assert heights == sorted(heights)
    assert min(b - a for a, b in pairwise(heights)) > 0.1


def test_systems_differ_in_colour_or_marker():
    names = [f"m{k}" for k in range(50)]
    axes = scores_figure([point("R", "r", name) for name in names]).axes[0]
    marks = [container[0] for container in axes.containers]
    assert len({(mark.get_color(), mark.get_marker()) for mark in marks}) == 50


@pytest.mark.parametrize(
    "task", ["STS-B-retrieval (R@5, 53 queries)", "Amazon-Google (R_cap@10, 500 queries)"]
)
def test_task_names_are_whole_and_do_not_overlap(task: str):
    figure = scores_figure([point("R", f"{task} {k}", name) for k in range(3) for name in "ab"])
    figure.draw_without_rendering()
    labels = figure.axes[0].get_yticklabels()
    assert [" ".join(label.get_text().split()) for label in labels] == [
        f"{task} {k}" for k in range(3)
    ]
    boxes = [label.get_window_extent() for label in labels]
    assert all(0 <= box.x0 < box.x1 <= figure.bbox.x1 for box in boxes)
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))


def test_systems_with_a_common_prefix_have_whole_names():
    names = [f"ranks of BM25 and all-MiniLM-L6-v2/{k}" for k in "ab"]
    figure = scores_figure([point("R", "r", name) for name in names])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert len({line.get_color() for line in legend.findobj(Line2D)}) == 2


@pytest.mark.parametrize("name", ["$\\frac{", "<b>&", "世界", "x" * 99, "_hidden"])
def test_any_name_can_be_drawn_and_the_picture_is_not_blank(name: str):
    found = [point("R", name, name), point("R", "t", "b")]
    pixels = imread(io.BytesIO(png(scores_figure(found))))
    assert pixels[..., :3].std() > 0.02
