"""The figures of a run, and what all figures share: labels, colours, pictures."""

import io
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.image import imread

from sentemb_core.report.data import Curve, RoundRow
from sentemb_core.report.drawing import (
    HUES,
    LONGEST_LABEL,
    MARKERS,
    Drawing,
    drawable,
    inline_svg,
    png,
)
from sentemb_core.report.run_figures import (
    draw,
    kept_share,
    running_mean,
    shares,
    training,
)
from sentemb_core.report.run_page import DRAWN
from tests.report.conftest import bare, scored


@pytest.fixture(scope="module")
def drawings(report):
    return draw(report)


def test_every_panel_has_its_own_names(drawings):
    assert list(drawings) == list(DRAWN), "what pages show without matplotlib"
    names = [drawing.name for panel in drawings.values() for drawing in panel]
    assert len(names) == len(set(names))


def test_an_empty_report_draws_nothing():
    assert draw(bare()) == {}


def trained(label: str, **columns: list[float]) -> RoundRow:
    """A training with these columns."""
    steps = [*range(1, len(columns["loss"]) + 1)]
    columns = {"gradient_norm": columns["loss"]} | columns
    return RoundRow(label=label, curve=Curve(step=steps, pairs=1, **columns))


def test_a_loss_below_0_is_inside_the_figure():
    row = trained("is_bert", loss=[-0.1, -0.5], learning_rate=[1e-5, 1e-5])
    (axes,) = training([row], "loss").axes
    low, high = axes.get_ylim()
    assert low < -0.5 < -0.1 < high


def test_noisy_trainings_can_be_distinguished():
    rng = np.random.default_rng(0)
    steps = [*range(1, 1201)]
    rows = [
        trained(f"{mean}", loss=rng.exponential(mean, 1200).tolist(), learning_rate=steps)
        for mean in (0.02, 0.06)
    ]
    for column in ("loss", "gradient_norm"):
        (axes,) = training(rows, column).axes
        lower, upper = (line.get_ydata() for line in axes.lines)
        assert max(lower) < min(upper)
    (rates,) = training(rows, "learning_rate").axes
    assert rates.lines[0].get_ydata().tolist() == steps, "nothing hides a rate"


def test_a_running_mean_ignores_missing_values():
    nan = float("nan")
    means = running_mean(np.array([1.0, 2.0, nan, 6.0, 8.0]), 3)
    assert means.tolist() == [1.5, 1.5, 4.0, 7.0, 7.0]
    assert running_mean(np.array([1.0, 5.0]), 0).tolist() == [1.0, 5.0]
    assert np.isnan(running_mean(np.array([nan, nan]), 2)).all()


def test_small_multiples_share_their_scales(drawings):
    for panel in ("cluster_sizes", "similarities", "overlap", "projection"):
        axes = [drawing.figure.axes[0] for drawing in drawings[panel]]
        assert len({(one.get_xlim(), one.get_ylim()) for one in axes}) == 1


@pytest.mark.parametrize(
    "labels", [["start", "round 1"], ["start", "after conpono", "cycle 1, round 1", "fine-tuned",
    "control"], [f"cycle 1, round {n}" for n in range(9)]],
)  # fmt: skip
def test_names_below_an_axis_do_not_overlap(labels):
    rows = [RoundRow(label=label, scores=scored(validation=0.5)) for label in labels]
    figure = draw(bare(rounds=rows))["recall"][0].figure
    figure.draw_without_rendering()
    names = figure.axes[0].get_xticklabels()
    if names[0].get_rotation() == 0:
        boxes = [name.get_window_extent() for name in names]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    else:
        assert len(labels) > 2, "two short names lie flat"


def test_a_picture_is_not_blank(drawings):
    pixels = imread(io.BytesIO(png(drawings["recall"][0].figure)))
    assert pixels.shape[0] > 300
    assert pixels[..., :3].std() > 0.02


def test_a_figure_takes_the_colours_and_the_font_of_the_page(drawings):
    drawing = inline_svg(replace(drawings["recall"][0], alt="what it shows"))
    assert 'aria-label="what it shows"' in drawing
    assert "var(--blue)" in drawing
    assert "var(--font)" in drawing
    assert not any(hue in drawing for hue in HUES)
    assert "http" not in drawing
    assert "<style" not in drawing


def test_texts_of_a_figure_are_not_restyled():
    words = 'id="a" url(#b) #0072b2 xlink:'
    drawn = training([trained(words, loss=[0.5], learning_rate=[0.1])], "loss")
    assert f">{words}<" in inline_svg(Drawing("loss", "", drawn))


def test_figures_have_different_ids(drawings):
    first, second = (
        str(inline_svg(replace(drawings["overlap"][0], name=name, alt=""))) for name in "ab"
    )
    assert first == second.replace('"b-', '"a-').replace("#b-", "#a-")
    assert 'id="a-' in first
    assert 'id="b-' in second


@pytest.mark.parametrize(
    "label", ["$\\frac{", "<b>&", "世界", "a\nb", "", "\U0001f600", "_x", "x" * 999]
)
def test_any_label_can_be_drawn(label):
    named = RoundRow(label=label, numbers={"kept_share": 0.2})
    for panel in draw(bare(rounds=[named])).values():
        assert png(panel[0].figure)
        assert "<b>" not in inline_svg(replace(panel[0], alt=label))


def test_only_clusters_have_a_warning_line():
    rows = [RoundRow(label=f"round {n}", numbers={"kept_share": 0.2}) for n in (1, 2)]
    edges = [row.model_copy(update={"positives": "edge"}) for row in rows]
    assert len(kept_share(rows).axes[0].lines) == 1
    assert not kept_share(edges).axes[0].lines


def test_shares_sum_to_a_hundred_or_to_nothing():
    assert shares([1, 3]).tolist() == [25, 75]
    assert not np.any(shares([0, 0]))


def test_labels_are_short_and_have_only_letters_of_the_font():
    assert drawable("R → 世界\nЖ") == "R → ?? Ж"
    assert len(drawable("x" * 999)) == LONGEST_LABEL
    assert drawable("x" * LONGEST_LABEL) == "x" * LONGEST_LABEL


def test_hues_and_markers_have_no_common_period():
    assert math.gcd(len(HUES), len(MARKERS)) == 1
