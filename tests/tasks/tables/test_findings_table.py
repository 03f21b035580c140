"""What stands beneath an experiment's table."""

import pytest

from flows.experiments.index import EXPERIMENTS
from tasks.tables.findings_table import FindingsTable


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("mutual.t1", True),  # BM25 is an arm
        ("product_thesis.rescore", True),
        ("mutual.appD", False),
    ],
)
def test_a_table_says_which_bm25_it_is_that_finds_or_is_rescored(id: str, told: bool):
    what = EXPERIMENTS[id]
    notes = [one for one in FindingsTable(what, what.small, [], {}).notes() if "BM25: k1" in one]
    assert notes == told * [
        "BM25: k1 1.2, b 0.75, k3 8; each text, or title that is looked for, as one field, words "
        "lowercased and not stemmed (runs of letters and digits), 179 English stop words left out."
    ]


def test_arms_that_rescore_what_bm25_finds_are_enough():
    what = EXPERIMENTS["product_thesis.rescore"]
    arms = tuple(arm for arm in what.arms if arm.alpha is not None)
    notes = FindingsTable(what.model_copy(update={"arms": arms}), what.small, [], {}).notes()
    assert any("BM25: k1" in one for one in notes)
