"""The long table of results and its renderer."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.results import (
    Pivot,
    ResultRow,
    ResultTable,
    cell,
    csv_text,
    grouped,
    json_rows,
    markdown,
    over_seeds,
    panel,
    terminal,
)

MEAN = ResultRow(
    system="simcse", task="News", metric="R@5", value=0.1664, spread=0.006, paper=0.3236
)
GAIN = ResultRow(
    system="simcse", task="News", metric="R@5", baseline="start", value=0.02, low=0.01, high=0.03
)
SCORE = GAIN.model_copy(update={"baseline": ""})
REFUSED = ResultRow(system="declutr", task="News", metric="R@5", note="E102 too few documents")
SECONDS = ResultRow(system="simcse", metric="seconds", value=1234.4)
TABLE = ResultTable(id="mutual.t1", title="Zero-shot", rows=(MEAN, GAIN, REFUSED, SECONDS))


@pytest.mark.parametrize(
    ("row", "pivot", "text"),
    [
        (MEAN, Pivot(), "0.166 ± 0.006 [0.3236]"),
        (MEAN, Pivot(scale=100, digits={"R@5": 1}), "16.6 ± 0.6 [0.3236]"),
        (GAIN, Pivot(), "+0.020 (+0.010 to +0.030)"),
        (GAIN, Pivot(intervals="none"), "+0.020"),
        (SCORE, Pivot(), "0.020"),
        (
            GAIN.model_copy(update={"baseline": ""}),
            Pivot(intervals="all"),
            "0.020 (0.010 to 0.030)",
        ),
        (REFUSED, Pivot(), "E102"),
        (REFUSED.model_copy(update={"value": 0.5}), Pivot(), "0.500 E102"),
        (SECONDS, Pivot(), "1,234"),
        (ResultRow(system="a map", metric="trained", note="no step"), Pivot(), "no step"),
    ],
)
def test_cell_shows_what_the_row_has(row: ResultRow, pivot: Pivot, text: str) -> None:
    assert cell(row, pivot) == text


def test_pivot_chooses_lines_and_columns() -> None:
    assert TABLE.head() == ["system", "News R@5", "News R@5 minus start (95 %)", "seconds"]
    assert [line[0] for line in TABLE.lines()] == ["simcse", "declutr"]
    turned = TABLE.model_copy(update={"pivot": Pivot(rows=("metric",), columns=("system",))})
    assert [line[0] for line in turned.lines()] == ["R@5", "seconds"]


def test_factors_head_lines_as_fields_do() -> None:
    rows = tuple(
        MEAN.model_copy(update={"factors": {"start": start}}) for start in ("static", "minilm")
    )
    table = ResultTable(id="x", title="", rows=rows, pivot=Pivot(rows=("start", "system")))
    assert [line[:2] for line in table.lines()] == [["static", "simcse"], ["minilm", "simcse"]]


def test_rows_of_one_place_share_a_cell() -> None:
    second = MEAN.model_copy(update={"value": 0.5, "spread": None, "paper": None})
    table = ResultTable(id="x", title="", rows=(MEAN, second))
    assert table.lines() == [["simcse", "0.166 ± 0.006 [0.3236], 0.500"]]


def test_markdown_marks_significant_differences() -> None:
    head, rule, first, *_ = markdown(TABLE).splitlines()
    assert head.count("|") == rule.count("|") == first.count("|") == 5
    assert "**+0.020 (+0.010 to +0.030)**" in first
    assert not GAIN.model_copy(update={"low": -0.01}).is_significant


def test_over_seeds_gives_mean_spread_and_seeds() -> None:
    rows = [
        ResultRow(system="a", metric="R@5", value=value, seeds=(seed,), key=str(seed))
        for seed, value in ((42, 0.1), (43, 0.3))
    ]
    (merged,) = over_seeds([*rows, ResultRow(system="a", metric="R@5", seeds=(44,), note="E999 x")])
    assert (merged.value, merged.seeds) == (0.2, (42, 43, 44))
    assert merged.spread == pytest.approx(0.1414, abs=1e-4)
    assert merged.note.startswith("E999")


def test_over_seeds_keeps_other_factors_apart() -> None:
    rows = [
        ResultRow(system="a", metric="R@5", value=0.1, seeds=(1,), factors={"labels": labels})
        for labels in ("100", "250")
    ]
    assert over_seeds(rows) == rows


@given(
    st.builds(
        ResultRow,
        system=st.text(min_size=1),
        metric=st.text(min_size=1),
        value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        seeds=st.tuples(st.integers(0, 99)),
        factors=st.dictionaries(st.text(min_size=1), st.text()),
    )
)
def test_json_round_trip(row: ResultRow) -> None:
    assert [ResultRow.model_validate(one) for one in json_rows([row])] == [row]


def test_csv_has_a_line_a_row_and_a_column_a_factor() -> None:
    row = MEAN.model_copy(update={"factors": {"start": "minilm"}, "seeds": (42, 43)})
    lines = list(csv.DictReader(io.StringIO(csv_text([row, SECONDS]))))
    assert [line["value"] for line in lines] == ["0.1664", "1234.4"]
    assert (lines[0]["start"], lines[0]["seeds"]) == ("minilm", "42 43")


def test_terminal_and_panel_hold_the_same_cells() -> None:
    shown, page = terminal(TABLE), panel(TABLE, reading="how")
    assert [str(column.header) for column in shown.columns] == [
        *("system", "News\nR@5", "\nR@5 minus start (95 %)", "seconds")
    ]
    assert list(page.head) == TABLE.head()
    assert (shown.row_count, page.reading) == (len(page.rows), "how")


def test_grouped_keeps_the_order_of_first_keys() -> None:
    assert grouped([("b", 1), ("a", 2), ("b", 3)]) == {"b": [1, 3], "a": [2]}
