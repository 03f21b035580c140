"""Rows as a person reads them, in a terminal and in a document."""

from rich.console import Console

from tasks.tables.grouped import grouped
from tasks.tables.text import across, markdown_table, terminal_table

HEAD, ROWS = ["model", "R@5"], [["our[bold]model", "0.5"], ["other", "12.25"]]


def shown(width: int, *, folded: bool) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(terminal_table(HEAD, ROWS, [1], folded=folded))
    return [line.strip() for line in captured.get().splitlines()]


def test_numbers_stand_on_the_right_and_a_bracket_is_no_markup():
    assert shown(40, folded=False) == [
        "model             R@5",
        "our[bold]model    0.5",
        "other           12.25",
    ]


def test_a_long_word_is_cut_or_goes_on_below():
    assert shown(18, folded=False)[1].split() == ["our[bold…", "0.5"]
    whole = "".join(line.split()[0] for line in shown(18, folded=True)[1:-1])
    assert whole == "our[bold]model"


def test_a_document_has_the_same_columns():
    assert markdown_table(HEAD, ROWS, [1]).splitlines() == [
        "| model | R@5 |",
        "| --- | ---: |",
        "| our[bold]model | 0.5 |",
        "| other | 12.25 |",
    ]


def test_one_seed_has_no_deviation():
    assert [across([]), across([0.25]), across([0.0, 1.0], 1)] == ["", "0.250", "0.5 ± 0.7"]


def test_groups_and_their_parts_stay_in_order():
    assert grouped([("b", 1), ("a", 2), ("b", 3)]) == {"b": [1, 3], "a": [2]}
