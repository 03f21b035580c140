"""The papers' tables as data: what is printed agrees with itself, or the note says where not."""

import re
from collections.abc import Iterator
from statistics import mean

import pytest

from flows.method_table import METHODS
from sentemb_core.evaluation.tables.index import PAPER_TABLES, PAPERS, paper_table
from sentemb_core.evaluation.tables.infocse import STS
from sentemb_core.evaluation.tables.table import PaperTable, rows_of

ALL = tuple(PAPER_TABLES.values())

ID = r"s00[0-4]\.(t\d+[a-e]?|e\d[ab]?|rescore|bce(_[a-z]+)?|dedup|time)(\.(r\d+|gain|1m))?"

ARITHMETIC = {("infocse.t2", "mirror_bert"): 75.41}
"""Averages that their own rows refute -> what the rows give."""

WORDS = {
    *("start encoder", "word vectors", "BM25", "BM25 + simcse", "flow", "whitening"),
    *("fine-tuned", "++", "k-means", "partition", "CP", "SC", "ICT", "BERT(CP)", "SBERT"),
    *("without mlm", "without contrastive", "detached", "not detached"),
    *("first row", "second row", "third row", "titles", "unique titles"),
    *("baseline", "whole sequences"),
}
"""Rows that no method of ours is."""

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
"""What the papers say."""


def rows(id: str):
    table = paper_table(id)
    assert table is not None, id
    return table.rows


def cells(table: PaperTable) -> Iterator[tuple[str, str, float]]:
    return (
        (row, column, value) for row, line in table.rows.items() for column, value in line.items()
    )


def range_of(measure: str) -> tuple[float, float]:
    """What a value can be at all: a fraction, a hundred times one, a few points, or minutes."""
    if measure.endswith("times 100"):
        return 5, 100
    if measure.startswith("gain"):
        return 0, 5
    if measure.startswith("minutes"):
        return 60, 600
    return 0.01, 0.75


def test_a_table_is_found_by_its_id_and_an_unknown_one_is_not():
    assert paper_table("mutual.t1") is PAPER_TABLES["mutual.t1"]
    assert paper_table("declutr.f3") is None
    assert paper_table("mutual.t") is None


def test_no_two_tables_share_an_id():
    assert len(ALL) == sum(len(paper.TABLES) for paper in PAPERS)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.id)
def test_an_id_is_of_the_list_of_experiments_and_the_source_names_its_paper(table: PaperTable):
    assert re.fullmatch(ID, table.id)
    assert f"(seed {table.id[1:4]})" in table.source
    if number := re.match(r"s\d+\.t(\d+)", table.id):
        assert f"Table {number[1]}" in table.source


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.id)
def test_a_row_is_a_method_of_ours_a_setting_or_a_word_of_the_paper(table: PaperTable):
    for row in table.rows:
        name = re.sub(r" \(.*\)$|, ((\d,\d{3}|all) labels|cls(_before_pooler)?)$", "", row)
        assert name in METHODS or name in WORDS or re.fullmatch(SETTING, name), row


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.id)
def test_every_value_is_one_that_its_measure_can_have(table: PaperTable):
    low, high = range_of(table.measure)
    assert table.rows
    assert [cell for cell in cells(table) if not low <= cell[2] <= high] == []


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.id)
def test_a_printed_average_is_the_mean_of_its_row_or_the_note_corrects_it(table: PaperTable):
    for row, line in table.rows.items():
        if set(line) != set(STS):
            continue
        by_arithmetic = mean(line[name] for name in STS[:-1])
        printed = line["average"]
        if corrected := ARITHMETIC.get((table.id, row)):
            assert by_arithmetic == pytest.approx(corrected, abs=0.005)
            assert printed != corrected
            assert str(corrected) in table.note
        else:
            assert printed == pytest.approx(by_arithmetic, abs=0.005), row


def test_as_many_rows_have_all_their_sts_columns_as_were_checked():
    whole = [row for row, line in rows("infocse.t2").items() if set(line) == set(STS)]
    assert len(whole) == 7
    assert len(rows("infocse.t2")) == 14 + 7


def test_sentevals_mean_is_the_mean_of_both_halves():
    for line in rows("declutr.t1").values():
        halves = mean((line["downstream"], line["probing"]))
        assert line["average"] == pytest.approx(halves, abs=0.0051)


@pytest.mark.parametrize(("id", "column"), BEST)
def test_the_best_row_is_the_one_that_the_paper_speaks_of(id: str, column: str):
    scored = {row: line[column] for row, line in rows(id).items() if column in line}
    best = BEST[id, column]
    assert [row for row in scored if scored[row] >= scored[best]] == [best]


def test_a_longer_list_recalls_more():
    five, ten, twenty = (rows(id) for id in ("mutual.t1", "mutual.t1.r10", "mutual.t1.r20"))
    assert ten.keys() == twenty.keys()
    for row, line in ten.items():
        for column, value in line.items():
            assert five[row][column] < value < twenty[row][column], (row, column)
    for line in rows("infocse.t11").values():
        assert line["R@1"] < line["R@5"] <= line["R@10"]


def test_one_run_has_the_same_numbers_under_its_five_names():
    names = ("mutual.t3b", "partition"), ("mutual.t3c", "round 2"), ("mutual.t3d", "CP")
    for id, row in (*names, ("mutual.t3e", "BERT(CP)")):
        assert rows(id)[row] == rows("mutual.t1")["infocse_idc"]
    tuned = rows("mutual.t3a")["fine-tuned, 1,000 labels"]
    assert tuned == rows("mutual.t2")["infocse_idc, 1,000 labels"]


def test_conpono_is_not_competitive_on_web_documents_whatever_the_text_says():
    web = {row: line["Web documents"] for row, line in rows("mutual.t1").items()}
    assert all(web["conpono"] < web[row] for row in ("ict", "cpc", "declutr"))


def test_the_ablations_of_one_encoder_agree_on_what_it_scores():
    (without,) = {
        rows("infocse.t5")["without mlm"]["STS-B dev"],
        rows("infocse.t8")["0"]["STS-B dev"],
    }
    assert without == rows("infocse.t9")["simcse, cls_before_pooler"]["STS-B dev"]
    (full,) = {
        rows(id)[row]["STS-B dev"]
        for id, row in (
            *(("infocse.t4", "infocse_aux"), ("infocse.t6", "detached")),
            *(("infocse.t7", "0.40"), ("infocse.t8", "1e-5"), ("infocse.t12", "infocse_aux")),
        )
    }
    assert full == rows("infocse.t9")["infocse_aux, cls_before_pooler"]["STS-B dev"]


def test_the_shifted_averages_are_table_2s_and_the_note_has_the_printed_ones():
    ours, right = rows("infocse.t12"), rows("infocse.t2")
    note = PAPER_TABLES["infocse.t12"].note
    for row, printed_for_it in (("diffcse", "esimcse"), ("infocse_aux", "diffcse")):
        assert ours[row]["average"] == right[row]["average"]
        printed = right[printed_for_it]["average"]
        assert re.search(rf"{printed}( \(esimcse's\))? for {row}", note)


def test_experiments_of_the_thesis_share_their_runs():
    assert rows("product_thesis.e1")["simcse"] == rows("product_thesis.e2a")["100k"]
    for row, line in rows("product_thesis.e3a").items():
        assert line["eBay titles"] == rows("product_thesis.e4")[row]["eProduct"]
    assert rows("product_thesis.e2b")["100k"] == rows("product_thesis.e4")["simcse"]
    assert rows("product_thesis.rescore")["BM25"] == rows("product_thesis.e1")["BM25"]


def test_a_line_of_another_length_than_its_columns_is_no_row():
    with pytest.raises(ValueError, match="shorter"):
        rows_of(("a", "b"), {"simcse": (1.0,)})
