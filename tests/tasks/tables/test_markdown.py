from tasks.tables.grouped import grouped
from tasks.tables.markdown import across, markdown_table


def test_numbers_of_a_document_stand_on_the_right():
    assert markdown_table(["model", "R@5"], [["ours", "0.5"]], [1]).splitlines() == [
        "| model | R@5 |",
        "| --- | ---: |",
        "| ours | 0.5 |",
    ]


def test_one_seed_has_no_deviation():
    assert [across([]), across([0.25]), across([0.0, 1.0], 1)] == ["", "0.250", "0.5 ± 0.7"]


def test_groups_and_their_parts_stay_in_order():
    found = grouped([("b", 1), ("a", 2), ("b", 3)])
    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]
