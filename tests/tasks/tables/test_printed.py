"""Which of the papers' averages stand beside ours, in the experiments themselves."""

import pytest

from flows.experiments.index import EXPERIMENTS
from flows.experiments.infocse import STS
from tasks.tables.printed import Printed


def test_a_table_with_a_development_set_averages_the_others_alone_as_the_paper_does():
    what = EXPERIMENTS["infocse.t12"]
    assert what.averaged == list(STS)
    claims = {claim.columns for claim in what.claims}
    assert claims == {("STS-B dev",), tuple(column.label for column in STS)}


@pytest.mark.parametrize(
    ("id", "arm", "whole", "beside"),
    [
        ("infocse.t2", "simcse", True, 76.25),  # as printed; the mean of its seven sets is 76.249
        ("infocse.t2", "word vectors", True, 61.32),
        ("infocse.t2", "simcse", False, None),
        ("infocse.t12", "diffcse", True, 78.49),
        ("product_thesis.bce", "simcse", True, None),  # of more sets than our five
        ("mutual.t1", "ict", True, None),
        ("product_thesis.e3a", "simcse", True, None),
    ],
)
def test_beside_an_average_stands_the_papers_own_or_none(
    id: str, arm: str, whole: bool, beside: float | None
):
    what = EXPERIMENTS[id]
    (row,) = [one for one in what.arms if one.label == arm]
    printed = Printed(what, whole=whole)
    assert printed.beside_average(row) == beside
    assert bool(printed.elsewhere()) == (
        id in ("infocse.t2", "product_thesis.bce") and beside is None
    )


def test_a_number_at_another_depth_than_our_column_is_told_beneath():
    told = Printed(EXPERIMENTS["mutual.t3c"]).of_another_depth()
    assert told == "Browsing R@5: round 1 0.0646; round 2 0.0661; round 3 0.0656."  # its Table 3
    zero_shot = Printed(EXPERIMENTS["mutual.t1"]).of_another_depth()
    assert "infocse_idc 0.0661" in zero_shot
    assert "conpono" not in zero_shot  # whose R@20 is known and stands in the cell
    assert not Printed(EXPERIMENTS["infocse.t12"]).of_another_depth()
