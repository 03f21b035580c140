"""The papers' numbers agree with themselves, or the note of their table has the correction."""

import re
from statistics import mean

import pytest

from flows.experiments.parts import METHODS
from sentemb_core.evaluation.paper_tables import (
    FOLDER,
    PaperTable,
    paper_table,
    paper_tables,
    read_csv,
)

TABLES = list(paper_tables().values())
STS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
MEANS = {
    "infocse.t2": (21, 0.005),
    "infocse.t3": (8, 5e-5),
    "infocse.t10": (8, 0.005),
    "hicl.t5": (2, 0.005),
}
"""Table whose average is the mean of its row -> number of rows, and what rounding allows."""

CORRECTED = {("infocse.t2", "mirror_bert"): 75.41, ("infocse.t10", "start encoder"): 84.95}
"""Printed averages that are not the mean of their row -> the mean."""

NAMES = {
    *("start encoder", "word vectors", "BM25", "BM25 + simcse", "flow", "whitening"),
    *("fine-tuned", "++", "k-means", "partition", "CP", "SC", "ICT", "BERT(CP)", "SBERT"),
    *("without mlm", "without contrastive", "detached", "not detached"),
    *("titles", "unique titles", "baseline", "whole sequences"),
    *("Skip-thought", "InferSent", "USE", "Sentence Transformers"),
}
"""Rows that are neither a method of ours nor a setting."""

QUALIFIER = r" \(.*\)$|, ((\d,\d{3}|all) labels|cls(_before_pooler)?|one epoch|\d+ a batch)$"
COUNTS = ("count", "value", "per cent")
"""Measures of tables about data and settings, whose rows have the paper's words."""

OTHER = {
    "average",
    "dimensions",
    "difference",
    "parameters, millions",
    "steps",
    "tasks of seven that gain",
}
"""Columns beside those of a measure; averages of infocse.t12 are printed a row too low."""

SETTING = r"round \d|\d+(\.\d+)?(e-\d)?|\d+[kM]"

SETS = ("News", "Web documents", "Browsing")
PRODUCTS = {
    **{"e1": "BM25", "rescore": "BM25 + simcse", "e2a": "100k", "e2b": "20k", "e4": "BM25"},
    **{"dedup": "unique titles", "dedup.1m": "unique titles"},
}

BEST = {
    **{("mutual.t1", f"{set} R@{k}"): "infocse_idc" for set in SETS for k in (5, 10, 20)},
    **{("mutual.t2", f"{set} R@5"): "infocse_idc, 5,000 labels" for set in SETS},
    ("mutual.t3a", "News R@5"): "++, all labels",
    ("mutual.t3b", "News R@5"): "partition",
    **{("mutual.t3c", f"{set} R@5"): "round 2" for set in SETS},
    ("mutual.t3d", "News R@5"): "CP",
    **{("mutual.t3e", f"{set} R@{k}"): "SBERT" for set in SETS for k in (5, 10, 20)},
    ("infocse.t1", "STS-B dev"): "simcse",
    ("infocse.t2", "average"): "infocse_aux (BERT-large)",
    ("infocse.t3", "average"): "infocse_aux",
    ("infocse.t4", "STS-B dev"): "infocse_aux",
    ("infocse.t5", "STS-B dev"): "infocse_aux",
    ("infocse.t6", "STS-B dev"): "detached",
    ("infocse.t7", "STS-B dev"): "0.40",
    ("infocse.t8", "STS-B dev"): "1e-5",
    ("infocse.t9", "STS-B dev"): "infocse_aux, cls_before_pooler",
    ("infocse.t11", "R@1"): "infocse_aux",
    ("infocse.t12", "STS-B dev"): "rtd_mlm",
    **{
        (f"product_thesis.{id}", f"eProduct {measure}"): row
        for id, row in PRODUCTS.items()
        for measure in ("R_cap@10", "P@10")
    },
    ("product_thesis.e5", "R@100"): "simcse+clm_autoencoder",
    ("product_thesis.e5", "R@10"): "BM25",
    ("product_thesis.bce", "STS-B"): "simcse",
    ("declutr.t1", "average"): "declutr (RoBERTa-base)",
    ("declutr.t1", "downstream"): "USE",
    ("hicl.t5", "average"): "hicl",
}
"""The best row of a column, as the paper's text names it."""

RANGES = {
    "times 100": (5, 100),
    "gain": (0, 5),
    "minutes": (60, 600),
    "R@": (0.01, 0.9),
    "nDCG": (0.05, 0.85),
}
"""Part of a measure -> the lowest and the highest number; tables of counts have no range."""


def rows(id: str) -> dict[str, dict[str, float]]:
    table = paper_table(id)
    assert table is not None, id
    return {
        row: {column: float(printed) for column, printed in line.items()}
        for row, line in table.rows.items()
    }


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
            name = re.sub(QUALIFIER, "", row)
            known = name in METHODS or name in NAMES or re.fullmatch(SETTING, name)
            assert known or table.measure in COUNTS, (table.id, row)


def test_the_best_row_is_the_one_that_the_paper_names():
    for (id, column), best in BEST.items():
        values = {row: line[column] for row, line in rows(id).items() if column in line}
        assert [row for row in values if values[row] >= values[best]] == [best], (id, column)


def test_conpono_is_below_three_methods_on_web_documents():
    """The paper's text calls it competitive."""
    web = {row: line["Web documents R@5"] for row, line in rows("mutual.t1").items()}
    assert all(web["conpono"] < web[row] for row in ("ict", "cpc", "declutr"))


def test_no_table_is_empty_and_every_value_is_in_its_measures_range():
    for table in TABLES:
        assert table.rows
        bounds = [of for part, of in RANGES.items() if part in table.measure]
        for line in rows(table.id).values() if bounds else ():
            scores = [v for name, v in line.items() if name not in OTHER]
            assert all(bounds[0][0] <= value <= bounds[0][1] for value in scores), table.id


def test_a_printed_average_is_the_mean_of_its_row_or_corrected_in_the_note():
    for id, (count, rounding) in MEANS.items():
        assert len(rows(id)) == count
        for row, line in rows(id).items():
            printed = line.pop("average")
            expected = CORRECTED.get((id, row), printed)
            assert mean(line.values()) == pytest.approx(expected, abs=1.001 * rounding), row
            if expected != printed:
                assert str(expected) in paper_tables()[id].note


def test_the_senteval_average_is_the_mean_of_both_halves():
    lines = rows("declutr.t1")
    best = lines["declutr (RoBERTa-base)"]["average"]
    for line in lines.values():
        halves = mean((line["downstream"], line["probing"]))
        assert line["average"] == pytest.approx(halves, abs=0.0051)
        assert line.get("difference", 0.0) == pytest.approx(halves - best, abs=0.0101)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_measures_of_a_row_are_in_their_order(table: PaperTable):
    """Recall grows with k; precision at 10 is below capped recall at 10."""
    for line in rows(table.id).values():
        for column, value in line.items():
            set, _, k = column.partition("R@")
            deeper = [
                line[f"{set}R@{m}"]
                for m in (5, 10, 20, 100)
                if k.isdigit() and m > int(k) and f"{set}R@{m}" in line
            ]
            assert all(value <= other for other in deeper), column
            if column.endswith("R_cap@10"):
                assert line[column.replace("R_cap", "P")] < value


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
        [("product_thesis.e4", "simcse, one epoch"), ("product_thesis.e1", "simcse")],
        [("product_thesis.e4", "start encoder"), ("product_thesis.e1", "start encoder")],
    ],
    ids=lambda places: places[0][0],
)
def test_one_run_has_the_same_numbers_in_all_its_tables(places: list[tuple[str, str]]):
    first, *others = (rows(id)[row] for id, row in places)
    for other in others:
        shared = (first.keys() & other.keys()) - OTHER
        assert shared
        assert all(first[name] == other[name] for name in shared)


def test_texts_of_the_decoders_are_those_of_experiment_3():
    for row, line in rows("product_thesis.e3a").items():
        for measure in ("R_cap@10", "P@10"):
            of_all = rows("product_thesis.e4")[row][f"eProduct {measure}"]
            assert line[f"eBay titles {measure}"] == of_all


def test_averages_that_are_printed_a_row_too_low_have_the_right_ones_in_the_note():
    printed, right = rows("infocse.t12"), rows("infocse.t2")
    note = paper_tables()["infocse.t12"].note
    for row, shifted_from in (("diffcse", "esimcse"), ("infocse_aux", "diffcse")):
        assert printed[row]["average"] == right[shifted_from]["average"]
        assert str(right[row]["average"]) in note
