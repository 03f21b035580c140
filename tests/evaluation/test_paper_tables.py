"""The papers' numbers agree with themselves, or the note of their table has the correction."""

import re
from collections.abc import Iterator
from statistics import mean

import pytest

from sentemb_core.evaluation.paper_tables import paper_table, paper_tables

TABLES = list(paper_tables().values())
STS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
CORRECTED = {("infocse.t2", "mirror_bert"): 75.41}
"""Printed averages that are not the mean of their row -> the mean."""

RANGES = {"times 100": (5, 100), "gain": (0, 5), "minutes": (60, 600), "R@": (0.01, 0.75)}


def rows(id: str):
    table = paper_table(id)
    assert table is not None, id
    return table.rows


def averaged_rows() -> Iterator[tuple[str, str, float, float]]:
    """Table, row, the printed average, and the mean of the row's seven STS sets."""
    for table in TABLES:
        for row, line in table.rows.items():
            if set(line) == {*STS, "average"}:
                yield table.id, row, line["average"], mean(line[name] for name in STS)


def test_an_unknown_table_is_none():
    assert paper_table("declutr.f3") is None
    assert paper_table("mutual.t") is None


def test_no_table_is_empty_and_every_value_is_in_its_measures_range():
    for table in TABLES:
        low, high = next(
            (bounds for part, bounds in RANGES.items() if part in table.measure and part != "R@"),
            RANGES["R@"],
        )
        assert table.rows
        for line in table.rows.values():
            assert all(low <= value <= high for value in line.values()), table.id


def test_a_printed_average_is_the_mean_of_its_row_or_corrected_in_the_note():
    for id, row, printed, average in averaged_rows():
        expected = CORRECTED.get((id, row), printed)
        assert average == pytest.approx(expected, abs=0.005), row
        if expected != printed:
            assert str(expected) in paper_tables()[id].note
    assert len(list(averaged_rows())) == 7


def test_the_senteval_average_is_the_mean_of_both_halves():
    for line in rows("declutr.t1").values():
        halves = mean((line["downstream"], line["probing"]))
        assert line["average"] == pytest.approx(halves, abs=0.0051)


def test_recall_grows_with_k():
    five, ten, twenty = (rows(id) for id in ("mutual.t1", "mutual.t1.r10", "mutual.t1.r20"))
    assert ten.keys() == twenty.keys()
    for row, line in ten.items():
        for column, value in line.items():
            assert five[row][column] < value < twenty[row][column], (row, column)
    for line in rows("infocse.t11").values():
        assert line["R@1"] < line["R@5"] <= line["R@10"]


@pytest.mark.parametrize(
    "places",
    [
        [
            ("mutual.t1", "infocse_idc"),
            *(("mutual.t3b", "partition"), ("mutual.t3c", "round 2")),
            *(("mutual.t3d", "CP"), ("mutual.t3e", "BERT(CP)")),
        ],
        [("mutual.t3a", "fine-tuned, 1,000 labels"), ("mutual.t2", "infocse_idc, 1,000 labels")],
        [
            ("infocse.t5", "without mlm"),
            ("infocse.t8", "0"),
            ("infocse.t9", "simcse, cls_before_pooler"),
        ],
        [
            *(("infocse.t4", "infocse_aux"), ("infocse.t6", "detached"), ("infocse.t7", "0.40")),
            *(("infocse.t8", "1e-5"), ("infocse.t9", "infocse_aux, cls_before_pooler")),
        ],
        [("product_thesis.e1", "simcse"), ("product_thesis.e2a", "100k")],
        [("product_thesis.e2b", "100k"), ("product_thesis.e4", "simcse")],
        [("product_thesis.rescore", "BM25"), ("product_thesis.e1", "BM25")],
    ],
    ids=lambda places: places[0][0],
)
def test_one_run_has_the_same_numbers_in_all_its_tables(places: list[tuple[str, str]]):
    first, *others = (rows(id)[row] for id, row in places)
    assert all(other == first for other in others)


def test_shifted_averages_are_corrected_and_the_note_keeps_the_printed_ones():
    corrected, right = rows("infocse.t12"), rows("infocse.t2")
    note = paper_tables()["infocse.t12"].note
    for row, shifted_from in (("diffcse", "esimcse"), ("infocse_aux", "diffcse")):
        assert corrected[row]["average"] == right[row]["average"]
        printed = right[shifted_from]["average"]
        assert re.search(rf"{printed}( \(esimcse's\))? for {row}", note)
