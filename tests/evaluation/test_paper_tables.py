"""The papers' numbers agree with themselves, or the note of their table has the correction."""

import re
from collections.abc import Iterator
from statistics import mean

import pytest

from flows.experiments.parts import METHODS
from sentemb_core.evaluation.paper_tables import FOLDER, paper_table, paper_tables, read_csv

TABLES = list(paper_tables().values())
STS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
CORRECTED = {("infocse.t2", "mirror_bert"): 75.41}
"""Printed averages that are not the mean of their row -> the mean."""

NAMES = {
    *("start encoder", "word vectors", "BM25", "BM25 + simcse", "flow", "whitening"),
    *("fine-tuned", "++", "k-means", "partition", "CP", "SC", "ICT", "BERT(CP)", "SBERT"),
    *("without mlm", "without contrastive", "detached", "not detached"),
    *("first row", "second row", "third row", "titles", "unique titles"),
    *("baseline", "whole sequences"),
}
"""Rows that are neither a method of ours nor a setting."""

SETTING = r"round \d|\d+(\.\d+)?(e-\d)?|\d+[kM]"

BEST = {
    ("mutual.t1", "News"): "infocse_idc",
    ("mutual.t1", "Web documents"): "infocse_idc",
    ("mutual.t1", "Browsing"): "infocse_idc",
    ("mutual.t3a", "News"): "++, all labels",
    ("mutual.t3b", "News"): "partition",
    ("mutual.t3c", "News"): "round 2",
    ("mutual.t3c", "Web documents"): "round 2",
    ("mutual.t3c", "Browsing"): "round 2",
    ("mutual.t3d", "News"): "CP",
    ("mutual.t3e", "News"): "SBERT",
    ("infocse.t1", "STS-B dev"): "simcse",
    ("infocse.t2", "average"): "infocse_aux (BERT-large)",
    ("infocse.t3", "average"): "infocse_aux",
    ("infocse.t4", "STS-B dev"): "infocse_aux",
    ("infocse.t5", "STS-B dev"): "without mlm",
    ("infocse.t6", "STS-B dev"): "detached",
    ("infocse.t7", "STS-B dev"): "0.40",
    ("infocse.t8", "STS-B dev"): "1e-5",
    ("infocse.t9", "STS-B dev"): "infocse_aux, cls_before_pooler",
    ("infocse.t12", "STS-B dev"): "rtd_mlm",
    ("product_thesis.e1", "eProduct"): "BM25",
    ("product_thesis.rescore", "eProduct"): "BM25 + simcse",
    ("product_thesis.e2a", "eProduct"): "100k",
    ("product_thesis.e2b", "eProduct"): "20k",
    ("product_thesis.e4", "eProduct"): "simcse+clm_autoencoder",
    ("product_thesis.e5", "R@100"): "simcse+clm_autoencoder",
    ("product_thesis.bce", "STS-B"): "simcse",
    ("product_thesis.dedup", "100k"): "unique titles",
    ("hicl.t5", "average"): "hicl",
}
"""The best row of a column, as the paper's text names it."""

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


def test_every_number_is_stored_once():
    assert len(read_csv(FOLDER / "tables.csv")) == len(TABLES)
    for file in FOLDER.glob("*.csv"):
        if file.name != "tables.csv":
            places = [(line["table"], line["row"], line["column"]) for line in read_csv(file)]
            assert len({*places}) == len(places)
            assert {table.partition(".")[0] for table, *_ in places} == {file.stem}


def test_every_source_names_its_table():
    for table in TABLES:
        if number := re.match(r"\w+\.t(\d+)", table.id):
            assert re.search(rf"Table {number[1]}\b", table.source), table.id


def test_every_row_is_a_method_a_setting_or_a_name_of_the_paper():
    for table in TABLES:
        for row in table.rows:
            name = re.sub(r" \(.*\)$|, ((\d,\d{3}|all) labels|cls(_before_pooler)?)$", "", row)
            known = name in METHODS or name in NAMES or re.fullmatch(SETTING, name)
            assert known, (table.id, row)


def test_the_best_row_is_the_one_that_the_paper_names():
    for (id, column), best in BEST.items():
        values = {row: line[column] for row, line in rows(id).items() if column in line}
        assert [row for row in values if values[row] >= values[best]] == [best], (id, column)


def test_conpono_is_below_three_methods_on_web_documents():
    """The paper's text calls it competitive."""
    web = {row: line["Web documents"] for row, line in rows("mutual.t1").items()}
    assert all(web["conpono"] < web[row] for row in ("ict", "cpc", "declutr"))


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
    assert [id for id, *_ in averaged_rows()] == ["infocse.t2"] * 7
    assert len(rows("infocse.t2")) == 14 + 7


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


def test_texts_of_the_decoders_are_those_of_experiment_3():
    for row, line in rows("product_thesis.e3a").items():
        assert line["eBay titles"] == rows("product_thesis.e4")[row]["eProduct"]


def test_shifted_averages_are_corrected_and_the_note_keeps_the_printed_ones():
    corrected, right = rows("infocse.t12"), rows("infocse.t2")
    note = paper_tables()["infocse.t12"].note
    for row, shifted_from in (("diffcse", "esimcse"), ("infocse_aux", "diffcse")):
        assert corrected[row]["average"] == right[row]["average"]
        printed = right[shifted_from]["average"]
        assert re.search(rf"{printed}( \(esimcse's\))? for {row}", note)
