import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sentemb_core.report.data import (
    CUTOFFS,
    DocumentClusters,
    Fact,
    Labelling,
    RoundRow,
    RunReport,
    Similarities,
    printable,
)


@given(st.text())
def test_a_printable_text_is_utf8_without_control_characters(text):
    shown = printable(text)
    shown.encode("utf-8")
    assert len(shown) == len(text)
    assert not set(shown) & set("\x00\x1b\x7f\u202e\u2066")


@pytest.mark.parametrize("text", ["Grüße, 世界", "two\nlines\tand a tab", "שלום\u200f"])
def test_ordinary_texts_stay_as_they_are(text):
    assert printable(text) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_number_that_is_not_finite_was_not_measured(value):
    assert RoundRow(label="round 1", churn=value).churn is None


def test_a_report_comes_back_from_its_json(report):
    assert RunReport.model_validate_json(report.model_dump_json()) == report


def test_the_cutoffs_are_whole_numbers_after_json(report):
    again = RunReport.model_validate_json(report.model_dump_json())
    assert tuple(again.rounds[0].validation.forward) == CUTOFFS


def test_every_sentence_needs_a_cluster():
    with pytest.raises(ValidationError, match="sentences': 2, 'clusters': 1"):
        DocumentClusters(
            name="a", sentences=["x", "y"], rounds=[Labelling(label="start", clusters=[0])]
        )


def test_a_histogram_has_one_edge_more_than_bins():
    with pytest.raises(ValidationError, match="'bins': 2, 'positives': 3"):
        Similarities(label="start", edges=[0, 0.5, 1], positives=[1, 2, 3], negatives=[0, 1, 2])


def test_a_link_is_a_web_address():
    with pytest.raises(ValidationError, match="link"):
        Fact(label="run", value="here", link="javascript:alert(1)")


def test_the_metric_has_a_name(report):
    assert report.metric == "R@5, document → title, validation split"
