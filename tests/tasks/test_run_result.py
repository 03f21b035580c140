"""Rows of a run: which of them led to an encoder."""

from tasks.run_result import EncoderResult, RowKind
from tests.tasks.made import row, training


def after(before: str, kind: RowKind, label: str) -> EncoderResult:
    return row(kind, label).model_copy(update={"before": before})


def test_the_way_to_an_encoder_leaves_out_the_rounds_that_it_did_not_begin_with():
    rows = [
        row("start", "start"),
        after("start", "round", "cycle 1 r1"),
        after("cycle 1 r1", "round", "cycle 1 r2"),
        after("cycle 1 r1", "fine-tuned", "cycle 1 tuned"),
        after("cycle 1 tuned", "round", "cycle 2 r1"),
        after("cycle 1 tuned", "fine-tuned", "cycle 2 tuned"),
    ]
    ways = [[one.label for one in training(rows, best).path] for best in (0, 2, 5)]
    assert ways == [
        ["start"],
        ["start", "cycle 1 r1", "cycle 1 r2"],
        ["start", "cycle 1 r1", "cycle 1 tuned", "cycle 2 tuned"],
    ]


def test_the_way_through_rows_of_one_label_ends():
    """Outcomes of older versions may have them: a method that was its own initialiser."""
    simcse = [after(before, "trained", "after simcse") for before in ("start", "after simcse")]
    (*_, first, last) = training([row("start", "start"), *simcse], 2).path
    assert (first.before, last.before) == ("start", "after simcse")
