"""What the card of a published encoder says: of its way, its test and what it is held against."""

from pathlib import Path

import pytest

from sentemb_core.corpus.validation_pool import Kind, PoolReport
from tasks.publish import beside, judged_on, way
from tests.tasks.made import ROWS, ref, row, training


def test_a_card_holds_an_encoder_against_words_and_against_its_own_control():
    controls = (row("control", "control 1"), row("control", "control 2"))
    rounds = [*ROWS, row("round", "round 2")]
    of_the_first = training(rounds, 2, controls=controls)
    assert beside(of_the_first) == {
        "BM25": ref("bm25"),
        "control: the same number of steps on plain neighbours": ref("control_1"),
    }
    assert list(beside(training(rounds, 1, controls=controls))) == ["BM25"], "no round was chosen"
    assert list(beside(training(rounds, 2))) == ["BM25"], "there was no control"


def test_a_card_says_a_method_once_and_every_training_on_the_way():
    assert way("infocse_idc", []) is None
    assert way("simcse", ["after simcse"]) == "simcse"
    assert way("infocse_idc", ["after ict", "round 1"]) == "infocse_idc: ict, then round 1"


@pytest.mark.parametrize(
    ("kind", "column", "sides"),
    [
        ("counterpart", "title", ("document", "title")),
        ("counterpart", None, ("document", "counterpart")),
        ("halves", "title", ("first half", "second half")),
    ],
)
def test_a_card_names_both_sides_of_the_test_split_and_its_size(
    kind: Kind, column: str | None, sides: tuple[str, str], tmp_path: Path
):
    counts = {"validation": 7, "gate": 8, "test": 9}
    told = PoolReport(kind=kind, n_candidates=24, n_queries=counts, merged=0)
    (tmp_path / "pool.json").write_text(told.model_dump_json())
    judged = judged_on(tmp_path, column)
    assert (judged.query, judged.candidate) == sides
    assert (judged.queries, judged.candidates) == (9, 24)
