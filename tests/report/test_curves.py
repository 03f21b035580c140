"""The picture of few-shot curves: its words can be read, however long they are."""

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from sentemb_core.report.curves import CurvePoint, curves_figure

LINES = {"random vectors": 0.01, "BM25": 0.9, "start encoder": 0.2}


@pytest.mark.parametrize(
    "block", ["blog_usgov, static", "product_amazon_google, transformer", "sessions, minilm"]
)
def test_title_and_legend_lie_apart_and_inside(block: str):
    points = [
        CurvePoint(method=method, labels=labels, scores=[0.4, 0.5])
        for method in ("no method", "infocse_plus", "conpono", "infocse_idc", "mirror_bert")
        for labels in (0, 100, 1_000)
    ]
    title = f"{block}: document → title, 1,000 test queries, 3 seeds"
    figure = curves_figure(points, LINES, title, "R@5")
    FigureCanvasAgg(figure).draw()
    (above,) = figure.findobj(lambda one: isinstance(one, Text) and "queries" in one.get_text())
    boxes = [
        one.get_window_extent() for one in (above, figure.axes[0].xaxis.label, figure.legends[0])
    ]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.width
