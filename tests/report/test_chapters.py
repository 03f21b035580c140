"""Words of chapters: true of the pairs that the run's annotation took."""

import pytest

from sentemb_core.report.chapters.clusters import before_and_after
from sentemb_core.report.chapters.examples import examples
from sentemb_core.report.chapters.learning import similarities
from sentemb_core.report.data import RunReport
from sentemb_core.report.figures.index import draw
from sentemb_core.types import Positives


@pytest.mark.parametrize("positives", ["cluster", "edge", "related"])
def test_only_pairs_of_clusters_are_said_to_share_one(report: RunReport, positives: Positives):
    rounds = [
        row.model_copy(update={"positives": positives}) if row.kind == "round" else row
        for row in report.rounds
    ]
    told = report.model_copy(update={"rounds": rounds})
    clustered = positives == "cluster"
    assert ("share a cluster" in examples(told, {})) == clustered
    assert ("inside a cluster" in similarities(told, draw(told))) == clustered


def test_where_no_document_is_of_a_size_to_show_it_is_not_said_that_none_was_clustered(
    report: RunReport,
):
    told = before_and_after(report.model_copy(update={"document": None}), {})
    assert "No document of 6 to 14 sentences was clustered" in told
