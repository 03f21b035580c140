"""What `RunReport` lets in: printable texts, finite numbers, and itself out of JSON."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.report.data import RoundRow, RunReport, printable
from tests.report.conftest import bare


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
    row = RoundRow(label="round 1", numbers={"churn": value}, low=value)
    (shown,) = bare(rounds=[row]).rounds
    assert (shown.numbers["churn"], shown.low) == (None, None)


def test_a_report_comes_back_from_its_json(report):
    again = RunReport.model_validate_json(report.model_dump_json())
    assert again == report
    assert list(again.rounds[2].cluster_sizes) == [2, 3, 4, 5, 6, 9], "whole numbers"
    assert report.metric == "R@5, document → title, test split"
