"""What the lines of a benchmark say."""

from sentemb_core.evaluation.label_free import DOCUMENTS
from tasks.tables.scoreboard_lines import HALVES


def test_halves_are_held_out_by_a_run_of_as_many_candidates_as_they_are():
    """A run of fewer candidates trains on some of these documents."""
    assert f"{DOCUMENTS:,} candidates (validation.candidates) or more" in HALVES[True]
