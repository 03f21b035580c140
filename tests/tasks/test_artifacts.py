"""Which encoders of a run led to the best one."""

from tests.tasks.made import row, training


def test_the_path_leaves_out_rounds_that_the_best_encoder_did_not_begin_with():
    rows = [
        row("start", "start"),
        row("round", "cycle 1 r1", parent="start"),
        row("round", "cycle 1 r2", parent="cycle 1 r1"),
        row("fine-tuned", "cycle 1 tuned", parent="cycle 1 r1"),
        row("round", "cycle 2 r1", parent="cycle 1 tuned"),
        row("fine-tuned", "cycle 2 tuned", parent="cycle 1 tuned"),
    ]
    paths = [[step.label for step in training(rows, best).path] for best in (0, 2, 5)]
    assert paths == [
        ["start"],
        ["start", "cycle 1 r1", "cycle 1 r2"],
        ["start", "cycle 1 r1", "cycle 1 tuned", "cycle 2 tuned"],
    ]


def test_the_path_through_rows_of_one_label_ends():
    """A method that is its own initialiser gives two such rows."""
    simcse = [row("trained", "after simcse", parent=parent) for parent in ("start", "after simcse")]
    (*_, first, last) = training([row("start", "start"), *simcse], 2).path
    assert (first.parent, last.parent) == ("start", "after simcse")
