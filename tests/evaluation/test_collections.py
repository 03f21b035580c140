"""Collections out of files: what is read, what is left out and counted, what is refused."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sentemb_core.errors import (
    BadDataError,
    DuplicateIdError,
    MissingColumnError,
    NoQueriesError,
    UnknownLabelsError,
    UnreadableSourceError,
)
from sentemb_core.evaluation.collection_scores import result_of
from sentemb_core.evaluation.collections import (
    Collection,
    product_clusters,
    product_pairs,
    read_beir,
    read_trec_style,
    sts_retrieval,
)
from sentemb_core.evaluation.suite_collections import read_collection
from tests.evaluation.made import beir_folder, task_of
from tests.parquet import write

DOCUMENTS = {"d1": "tax forms", "d2": "ships at sea", "d3": "taxes on ships"}
QUERIES = {"q1": "tax", "q2": "sea", "q3": "moon"}
JUDGEMENTS = [("q1", "d1", 2), ("q1", "d3", 1), ("q2", "d2", 1), ("q3", "d1", 0)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return beir_folder(tmp_path / "tax", DOCUMENTS, QUERIES, JUDGEMENTS)


def answers(collection: Collection) -> dict[str, dict[str, int]]:
    """Grades by ids."""
    relevant = collection.relevant
    return {
        collection.query_ids[query]: {
            collection.document_ids[item]: int(grade)
            for item, grade in zip(relevant.item[a:b], relevant.grade[a:b], strict=True)
        }
        for query, a, b in zip(
            relevant.query, relevant.offsets[:-1], relevant.offsets[1:], strict=True
        )
    }


def append(path: Path, line: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(line if isinstance(line, bytes) else line.encode())


def test_a_beir_folder_is_read_with_its_grades(folder: Path):
    found = read_beir(folder)
    assert (found.name, found.main) == ("tax", "nDCG@10")
    assert answers(found) == {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}}
    assert dict(zip(found.document_ids, found.texts, strict=True)) == DOCUMENTS
    assert found.queries == ["tax", "sea", "moon"]


def test_judged_queries_stay_and_those_that_nobody_judged_are_left_out(folder: Path, caplog):
    caplog.set_level("INFO")
    append(folder / "queries.jsonl", '{"_id": "q4", "text": "sun"}\n')
    found = read_beir(folder)
    assert (found.query_ids, found.relevant.query.tolist()) == (["q1", "q2", "q3"], [0, 1])
    told = "3 documents, 3 queries, of which 1 have no relevant document and count 0; 1 more that"
    assert told in caplog.text


def test_a_query_whose_only_judged_document_is_not_there_counts(tmp_path: Path):
    folder = many(tmp_path / "set", 1)
    append(folder / "queries.jsonl", '{"_id": "q2", "text": "x"}\n')
    append(folder / "qrels" / "test.tsv", "q2\td900\t1\n")
    assert read_beir(folder).query_ids == ["q1", "q2"]


@pytest.mark.parametrize("shared", [1, 2])
def test_relevant_documents_with_the_id_of_their_query_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: int
):
    """A known-item test that numbers both sides alike could find nothing, without a word."""
    ids = [f"d{k}" if k >= shared else f"q{k}" for k in range(2)]
    queries = dict.fromkeys(["q0", "q1"], "Asked?")
    rows = [(f"q{k}", key, 1) for k, key in enumerate(ids)]
    folder = beir_folder(tmp_path / "known", dict.fromkeys([*ids, "other"], "Said."), queries, rows)
    if shared == 2:
        with pytest.raises(NoQueriesError, match=r"E502 .*; 2 of 2 relevant documents of known"):
            read_beir(folder)
    else:
        assert read_beir(folder).query_ids == ["q0", "q1"]
        assert "1 of 2 relevant documents of known have the id of their query" in caplog.text


def test_titles_stand_before_the_text(folder: Path):
    append(folder / "corpus.jsonl", '{"_id": 4, "title": "The moon", "text": "is far."}\n')
    append(folder / "corpus.jsonl", '{"_id": "d5", "title": null, "text": "far"}\n')
    found = read_beir(folder)
    assert found.documents[-2:] == ["The moon is far.", "far"]
    assert found.document_ids[-2:] == ["4", "d5"]


def test_another_split_has_other_judgements(folder: Path):
    (folder / "qrels" / "dev.tsv").write_text("q3\td2\t1\n")
    found = read_beir(folder, "dev")
    assert answers(found) == {"q3": {"d2": 1}}
    assert found.query_ids == ["q3"]


def test_a_judgement_that_comes_again_replaces_the_first_and_is_told(folder: Path, caplog):
    append(folder / "qrels" / "test.tsv", "q1\td1\t0\nq2\td2\t3\n")
    assert answers(read_beir(folder)) == {"q1": {"d3": 1}, "q2": {"d2": 3}}
    assert "tax: 2 judgements contradict an earlier one" in caplog.text


def test_a_query_without_a_word_is_told(folder: Path, caplog):
    append(folder / "queries.jsonl", '{"_id": "q4", "text": " "}\n')
    append(folder / "qrels" / "test.tsv", "q4\td1\t1\n")
    read_beir(folder)
    assert "tax: 1 of 4 queries have no word" in caplog.text


def test_the_document_with_the_querys_own_id_is_hidden_unless_asked_for(tmp_path: Path):
    texts = {"a": "x", "b": "y"}
    made = beir_folder(
        tmp_path / "own", texts, {"b": "y", "c": "z"}, [("b", "a", 1), ("c", "a", 1)]
    )
    assert {k: v.tolist() for k, v in read_beir(made).hidden.items()} == {0: [1]}
    assert read_beir(made, hide_own=False).hidden == {}


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_file_that_is_not_there_is_named_with_the_splits_that_are(folder: Path, name: str):
    (folder / "qrels" / "dev.tsv").write_text("q3\td2\t1\n")
    (folder / name).unlink()
    with pytest.raises(UnreadableSourceError, match=rf"E103 .*{name}.*Splits found: .*dev"):
        read_beir(folder)


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("corpus.jsonl", '{"_id": "d4", "text": ', "a JSON object"),
        ("corpus.jsonl", '["d4", "text"]', "a JSON object"),
        ("corpus.jsonl", '{"text": "no id"}', "an _id"),
        ("corpus.jsonl", '{"_id": true, "text": "x"}', "an _id"),
        ("corpus.jsonl", '{"_id": 4.0, "text": "x"}', "an _id that is text or a whole number"),
        ("corpus.jsonl", '{"_id": "d4"}', "a text"),
        ("corpus.jsonl", '{"_id": "d4", "title": 3, "text": "x"}', "a title that is text"),
        ("corpus.jsonl", '{"_id": "d4", "text": "\\ud800"}', "lone surrogates"),
        ("corpus.jsonl", b'{"_id": "d4", "text": "\xff"}', "UTF-8"),
        ("queries.jsonl", '{"_id": "q4", "text": null}', "a text"),
        ("qrels/test.tsv", "q1\td1", "between tabs"),
        ("qrels/test.tsv", "q1 d1 1", "between tabs"),
        ("qrels/test.tsv", "q1\td1\t0.5", "whole grade"),
        ("qrels/test.tsv", "q1\td1\t" + "9" * 30, r"a whole grade \(of 32 bits\)"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(
    folder: Path, name: str, line: str | bytes, expected: str
):
    count = (folder / name).read_bytes().count(b"\n")
    append(folder / name, "\n")
    append(folder / name, line)
    with pytest.raises(BadDataError, match=rf"E100 .*{expected}.*{name}, line {count + 2} has"):
        read_beir(folder)


def test_judgements_without_a_header_lose_no_row_and_line_ends_may_be_those_of_windows(
    folder: Path,
):
    (folder / "qrels" / "test.tsv").write_bytes(b"\xef\xbb\xbfq1\td1\t1\r\nq2\td2\t1\r\n")
    assert answers(read_beir(folder)) == {"q1": {"d1": 1}, "q2": {"d2": 1}}


@pytest.mark.parametrize("grade", ["1.0", "nan", "9" * 30])
def test_a_first_row_whose_grade_is_a_number_is_no_header(folder: Path, grade: str):
    (folder / "qrels" / "test.tsv").write_text(f"q1\td1\t{grade}\nq2\td2\t1\n")
    with pytest.raises(BadDataError, match=rf"E100 .*test.tsv, line 1 has .*{grade}"):
        read_beir(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_an_id_that_comes_again_is_refused(folder: Path, name: str):
    key = "d2" if name == "corpus.jsonl" else "q2"
    append(folder / name, f'{{"_id": "{key}", "text": "again"}}\n')
    with pytest.raises(DuplicateIdError, match=rf"E105 .*'{key}' is number 2 and number 4"):
        read_beir(folder)


def many(folder: Path, unknown: int) -> Path:
    """200 judgements, of which some name a document or a query that is not there."""
    known = [("q1", f"d{k}", 1) for k in range(200 - unknown)]
    strange = [("q1", f"x{k}", 1) if k % 2 else (f"x{k}", "d1", 1) for k in range(unknown)]
    texts = {f"d{k}": "text" for k in range(200)}
    return beir_folder(folder, texts, {"q1": "text"}, [*known, *strange])


def test_one_in_a_hundred_judgements_may_name_unknown_ids_and_is_counted(tmp_path: Path, caplog):
    found = read_beir(many(tmp_path / "set", 2))
    assert (len(found.relevant.item), len(found.query_ids)) == (199, 1)
    assert "2 of 200 judgements name unknown ids" in caplog.text
    best_first = result_of(found, lambda rows: -np.tile(np.arange(200.0), (len(rows), 1)))
    assert best_first.measures["R@100"] == 100 / 199, "what is not there is not found, as trec_eval"


def test_more_unknown_ids_mean_another_corpus(tmp_path: Path):
    with pytest.raises(UnknownLabelsError, match=r"E501 .*3 of 200 of set .*\('x0', 'd1'\)"):
        read_beir(many(tmp_path / "set", 3))


def test_a_split_in_which_nobody_finds_anything_is_refused(folder: Path):
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t0\n")
    with pytest.raises(NoQueriesError, match=r"E502 .*none of 3 queries of tax"):
        read_beir(folder)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(NoQueriesError, match="E502"):
        read_beir(folder)


def test_trec_style_ids_are_numbers_that_hide_nothing(tmp_path: Path):
    found = read_trec_style(
        write(tmp_path / "docs.parquet", doc_id=["1", "2"], text=["a", None]),
        write(tmp_path / "queries.parquet", query_id=["1", "2"], text=["b", "c"]),
        write(tmp_path / "qrels.parquet", query_id=["1"], doc_id=["1"], rel=[1]),
    )
    assert (found.main, found.hidden) == ("nDCG@10", {})
    assert (found.documents, found.queries) == (["a", ""], ["b"])


def test_pairs_of_products_ask_from_the_left_and_find_on_the_right(tmp_path: Path):
    path = write(
        tmp_path / "product_abt_buy.parquet",
        title1=["a", "a", "b", "c"],
        title2=["A", "B", "A", "C"],
        label=[1, 1, 0, 0],
    )
    found = product_pairs(path)
    assert (found.main, found.queries, found.texts) == ("R_cap@10", ["a"], ["A", "B", "C"])
    assert answers(found) == {"000000": {"000000": 1, "000001": 1}}
    assert found.hidden == {}


def test_a_title_of_a_cluster_asks_for_the_others_and_equal_titles_are_one(tmp_path: Path):
    """The title b stands in two clusters; d is alone."""
    path = write(
        tmp_path / "product_wdc_clusters.parquet",
        cluster_id=[0, 0, 1, 1, 2],
        title=["a", "b", "b", "c", "d"],
    )
    found = product_clusters(path)
    assert found.texts == ["a", "b", "c", "d"]
    titled = dict(zip(found.document_ids, found.texts, strict=True))
    named = {titled[q]: {titled[d] for d in own} for q, own in answers(found).items()}
    assert named == {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}}
    assert {k: v.tolist() for k, v in found.hidden.items()} == {0: [0], 1: [1], 2: [2]}


def test_titles_that_answer_each_other_are_tied_and_so_are_those_of_linked_products(tmp_path: Path):
    path = write(
        tmp_path / "product_wdc_clusters.parquet",
        cluster_id=[0, 0, 1, 1, 2, 3, 3],
        title=["a", "b", "b", "c", "d", "e", "f"],
    )
    found = product_clusters(path)
    tied = dict(zip(found.queries, found.tied.tolist(), strict=True))
    assert tied["a"] == tied["b"] == tied["c"] != tied["e"] == tied["f"]
    assert "d" not in tied


def test_a_paraphrase_is_sought_without_copies_of_either_side(tmp_path: Path):
    path = write(
        tmp_path / "pairs.parquet",
        sentence1=["a", "a", "x", "b"],
        sentence2=["b", "y", "a", "z"],
        score=[5.0, 4.8, 0.0, None],
    )
    found = sts_retrieval(path)
    assert (found.main, found.queries) == ("R@5", ["a"])
    assert answers(found) == {"00000-1": {"00000-2": 1}}
    hidden = [found.document_ids[k] for k in found.hidden[0].tolist()]
    assert sorted(hidden) == ["00000-1", "00001-1", "00002-2", "00003-1"]


def test_parquet_files_that_cannot_be_used_are_told_apart(tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match="E103"):
        sts_retrieval(tmp_path / "absent.parquet")
    with pytest.raises(MissingColumnError, match=r"E104 .*lacks score.*has sentence1, sentence2"):
        sts_retrieval(write(tmp_path / "narrow.parquet", sentence1=["a"], sentence2=["b"]))


@pytest.mark.parametrize(
    ("source", "name", "wrong"),
    [
        ("npl", "ir_npl_queries", {"text": ["b", None]}),
        ("npl", "ir_npl_qrels", {"rel": [1, None]}),
        ("npl", "ir_npl_qrels", {"rel": [1.0, 0.5]}),
        ("npl", "ir_npl_qrels", {"rel": [1.0, 1e30]}),
        ("abt_buy", "product_abt_buy", {"title2": ["A", None]}),
        ("wdc_clusters", "product_wdc_clusters", {"title": ["a", None]}),
        ("wdc_clusters", "product_wdc_clusters", {"cluster_id": [0, None]}),
        ("stsb", "stsb_test", {"sentence2": ["A", None]}),
    ],
)
def test_rows_without_a_value_are_told_by_their_numbers(
    tmp_path: Path, source: str, name: str, wrong: dict[str, list]
):
    files: dict[str, dict[str, list]] = {
        "ir_npl_docs": {"doc_id": ["1", "2"], "text": ["a", None]},
        "ir_npl_queries": {"query_id": ["1", "2"], "text": ["b", "c"]},
        "ir_npl_qrels": {"query_id": ["1", "1"], "doc_id": ["1", "2"], "rel": [1, 1]},
        "product_abt_buy": {"title1": ["a", "b"], "title2": ["A", "B"], "label": [1, 1]},
        "product_wdc_clusters": {"cluster_id": [0, 0], "title": ["a", "b"]},
        "stsb_test": {"sentence1": ["a", "b"], "sentence2": ["A", "B"], "score": [5.0, 4.0]},
    }
    for file, columns in files.items():
        write(tmp_path / f"{file}.parquet", **columns | (wrong if file == name else {}))
    (column,) = wrong
    told = (
        rf"E100 Column {column} holds .*1 row of .*{name}\.parquet \(first: row 1, counted from 0"
    )
    with pytest.raises(BadDataError, match=told):
        read_collection(task_of(source), tmp_path)


@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgements"),
    [("cranfield", 1400, 225, 1612), ("cacm", 3204, 52, 796), ("npl", 11426, 93, 2083)],
)
def test_the_trec_style_sets_have_their_counts(
    larger_sets: Path, name: str, documents: int, queries: int, judgements: int
):
    found = read_collection(task_of(name), larger_sets)
    assert (len(found.texts), len(found.queries)) == (documents, queries)
    assert len(found.relevant.item) == judgements
    assert len(found.relevant.query) == queries, "none is judged without a relevant document"


@pytest.mark.parametrize(
    ("name", "documents", "queries"),
    [("wdc_clusters", 9500, 8618), ("amazon_google", 2043, 990), ("abt_buy", 1034, 1016)],
)
def test_the_product_sets_have_their_counts(
    larger_sets: Path, name: str, documents: int, queries: int
):
    found = read_collection(task_of(name), larger_sets)
    assert (len(found.texts), len(found.queries)) == (documents, queries)
    assert len(set(found.texts)) == documents


def test_the_sentences_of_infocse_are_97_queries_in_a_pool_of_2758(larger_sets: Path):
    found = sts_retrieval(larger_sets / "stsb_test.parquet")
    assert (len(found.queries), len(found.texts), len(set(found.texts))) == (97, 2758, 2551)
    assert np.diff(found.relevant.offsets).tolist() == [1] * 97
    times = Counter(found.texts)
    assert sum(times[query] > 1 for query in found.queries) == 31
