"""The figure of a benchmark that scored the run's encoder."""

from collections.abc import Iterator

from sentemb_core.report.data import RunReport
from sentemb_core.report.drawing import Drawing
from sentemb_core.report.scores import scores_figure


def evaluation_drawings(report: RunReport) -> Iterator[Drawing]:
    if report.evaluation and (points := report.evaluation.points):
        alt = "Scores of the encoder and of all others on the evaluation suite, told below"
        yield Drawing("evaluation", alt, scores_figure(points))
