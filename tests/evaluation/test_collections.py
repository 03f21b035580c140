"""Collections out of files: what is read, what is left out, what is refused."""

from collections import Counter
from pathlib import Path
from typing import Literal

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
from sentemb_core.evaluation.collection_files import (
    product_clusters,
    product_pairs,
    read_beir,
    read_collection,
    read_trec_style,
    sts_retrieval,
    summarised_papers,
)
from sentemb_core.evaluation.collection_scores import result_of
from sentemb_core.evaluation.collections import Collection
from sentemb_core.retriever.results import stated_sentences
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


def test_beir_folder_is_read_with_grades(folder: Path):
    collection = read_beir(folder)
    assert (collection.name, collection.main) == ("tax", "nDCG@10")
    assert answers(collection) == {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}}
    assert dict(zip(collection.document_ids, collection.texts, strict=True)) == DOCUMENTS
    assert collection.queries == ["tax", "sea", "moon"]


def test_queries_without_a_judgement_are_left_out(folder: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    append(folder / "queries.jsonl", '{"_id": "q4", "text": "sun"}\n')
    collection = read_beir(folder)
    assert collection.query_ids == ["q1", "q2", "q3"]
    assert collection.relevant.query.tolist() == [0, 1]
    counts = ("tax", 3, 3, 1, 1)  # documents, queries, unanswered, not judged
    assert counts in [record.args for record in caplog.records]


def test_query_with_an_unknown_document_counts(tmp_path: Path):
    folder = many(tmp_path / "set", 1)
    append(folder / "queries.jsonl", '{"_id": "q2", "text": "x"}\n')
    append(folder / "qrels" / "test.tsv", "q2\td900\t1\n")
    assert read_beir(folder).query_ids == ["q1", "q2"]


@pytest.mark.parametrize("shared", [1, 2])
def test_documents_with_the_id_of_their_query_are_hidden(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: int
):
    """A known-item test with the same ids on both sides could find nothing, without a warning."""
    ids = [f"d{k}" if k >= shared else f"q{k}" for k in range(2)]
    queries = dict.fromkeys(["q0", "q1"], "Question?")
    rows = [(f"q{k}", key, 1) for k, key in enumerate(ids)]
    texts = dict.fromkeys([*ids, "other"], "Answer.")
    folder = beir_folder(tmp_path / "known", texts, queries, rows)
    if shared == 2:
        with pytest.raises(NoQueriesError, match=r"2 of 2 .*known"):
            read_beir(folder)
    else:
        assert read_beir(folder).query_ids == ["q0", "q1"]
        assert "1 of 2 relevant documents of known" in caplog.text


def test_titles_precede_the_text(folder: Path):
    append(folder / "corpus.jsonl", '{"_id": 4, "title": "The moon", "text": "is far."}\n')
    append(folder / "corpus.jsonl", '{"_id": "d5", "title": null, "text": "far"}\n')
    collection = read_beir(folder)
    assert collection.documents[-2:] == ["The moon is far.", "far"]
    assert collection.document_ids[-2:] == ["4", "d5"]


def test_each_split_has_its_own_judgements(folder: Path):
    (folder / "qrels" / "dev.tsv").write_text("q3\td2\t1\n")
    collection = read_beir(folder, "dev")
    assert answers(collection) == {"q3": {"d2": 1}}
    assert collection.query_ids == ["q3"]


def test_the_last_of_two_judgements_counts(folder: Path, caplog: pytest.LogCaptureFixture):
    append(folder / "qrels" / "test.tsv", "q1\td1\t0\nq2\td2\t3\n")
    assert answers(read_beir(folder)) == {"q1": {"d3": 1}, "q2": {"d2": 3}}
    assert ("tax", 2) in [record.args for record in caplog.records]


def test_queries_without_a_word_are_counted(folder: Path, caplog: pytest.LogCaptureFixture):
    append(folder / "queries.jsonl", '{"_id": "q4", "text": " "}\n')
    append(folder / "qrels" / "test.tsv", "q4\td1\t1\n")
    read_beir(folder)
    assert ("tax", 1, 4) in [record.args for record in caplog.records]


def test_own_document_is_hidden_by_default(tmp_path: Path):
    queries, rows = {"b": "y", "c": "z"}, [("b", "a", 1), ("c", "a", 1)]
    folder = beir_folder(tmp_path / "own", {"a": "x", "b": "y"}, queries, rows)
    assert {k: v.tolist() for k, v in read_beir(folder).hidden.items()} == {0: [1]}
    assert read_beir(folder, hide_own=False).hidden == {}


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_missing_file_is_named_with_the_splits_of_the_folder(folder: Path, name: str):
    (folder / "qrels" / "dev.tsv").write_text("q3\td2\t1\n")
    (folder / name).unlink()
    with pytest.raises(UnreadableSourceError, match=rf"/{name}.*: dev"):
        read_beir(folder)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("corpus.jsonl", '{"_id": "d4", "text": '),
        ("corpus.jsonl", '["d4", "text"]'),
        ("corpus.jsonl", '{"text": "no id"}'),
        ("corpus.jsonl", '{"_id": true, "text": "x"}'),
        ("corpus.jsonl", '{"_id": 4.0, "text": "x"}'),
        ("corpus.jsonl", '{"_id": "d4"}'),
        ("corpus.jsonl", '{"_id": "d4", "title": 3, "text": "x"}'),
        ("corpus.jsonl", '{"_id": "d4", "text": "\\ud800"}'),
        ("corpus.jsonl", b'{"_id": "d4", "text": "\xff"}'),
        ("queries.jsonl", '{"_id": "q4", "text": null}'),
        ("qrels/test.tsv", "q1\td1"),
        ("qrels/test.tsv", "q1 d1 1"),
        ("qrels/test.tsv", "q1\td1\t0.5"),
        ("qrels/test.tsv", "q1\td1\t" + "9" * 30),
        ("qrels/test.tsv", "q1\td1\t" + "9" * 400),
    ],
)
def test_bad_row_is_refused_with_its_line(folder: Path, name: str, line: str | bytes):
    count = (folder / name).read_bytes().count(b"\n")
    append(folder / name, "\n")
    append(folder / name, line)
    with pytest.raises(BadDataError, match=rf"{name}, line {count + 2} "):
        read_beir(folder)


def test_judgements_may_lack_a_header_and_end_lines_as_windows_does(folder: Path):
    (folder / "qrels" / "test.tsv").write_bytes(b"\xef\xbb\xbfq1\td1\t1\r\nq2\td2\t1\r\n")
    assert answers(read_beir(folder)) == {"q1": {"d1": 1}, "q2": {"d2": 1}}


@pytest.mark.parametrize("grade", ["1.0", "nan", "9" * 30])
def test_first_row_with_a_number_is_no_header(folder: Path, grade: str):
    (folder / "qrels" / "test.tsv").write_text(f"q1\td1\t{grade}\nq2\td2\t1\n")
    with pytest.raises(BadDataError, match=rf"test\.tsv, line 1 .*{grade}"):
        read_beir(folder)


@pytest.mark.parametrize(("name", "key"), [("corpus.jsonl", "d2"), ("queries.jsonl", "q2")])
def test_repeated_id_is_refused(folder: Path, name: str, key: str):
    append(folder / name, f'{{"_id": "{key}", "text": "again"}}\n')
    with pytest.raises(DuplicateIdError, match=rf"'{key}'.* 2 .* 4\b"):
        read_beir(folder)


def many(folder: Path, unknown: int) -> Path:
    """200 judgements, of which some name a document or a query that does not exist."""
    known = [("q1", f"d{k}", 1) for k in range(200 - unknown)]
    strange = [("q1", f"x{k}", 1) if k % 2 else (f"x{k}", "d1", 1) for k in range(unknown)]
    texts = {f"d{k}": "text" for k in range(200)}
    return beir_folder(folder, texts, {"q1": "text"}, [*known, *strange])


def test_one_unknown_id_in_a_hundred_counts_as_not_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    collection = read_beir(many(tmp_path / "set", 2))
    assert (len(collection.relevant.item), len(collection.query_ids)) == (199, 1)
    assert ("set", 2, 200) in [record.args for record in caplog.records]
    best_first = result_of(collection, lambda rows: -np.tile(np.arange(200.0), (len(rows), 1)))
    assert best_first.measures["R@100"] == 100 / 199, "as in trec_eval"


def test_more_unknown_ids_are_refused(tmp_path: Path):
    with pytest.raises(UnknownLabelsError, match=r"3 of 200 of set .*\('x0', 'd1'\)"):
        read_beir(many(tmp_path / "set", 3))


@pytest.mark.parametrize(("rows", "judgements"), [("q1\td1\t0\n", 1), ("", 0)])
def test_split_without_a_relevant_document_is_refused(folder: Path, rows: str, judgements: int):
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    with pytest.raises(NoQueriesError, match=rf"none of 3 .*tax \({judgements} "):
        read_beir(folder)


def test_trec_style_ids_are_numbers_that_hide_nothing(tmp_path: Path):
    collection = read_trec_style(
        write(tmp_path / "docs.parquet", doc_id=["1", "2"], text=["a", None]),
        write(tmp_path / "queries.parquet", query_id=["1", "2"], text=["b", "c"]),
        write(tmp_path / "qrels.parquet", query_id=["1"], doc_id=["1"], rel=[1]),
    )
    assert (collection.main, collection.hidden) == ("nDCG@10", {})
    assert (collection.documents, collection.queries) == (["a", ""], ["b"])


def test_left_titles_of_product_pairs_look_for_right_titles(tmp_path: Path):
    path = write(
        tmp_path / "product_abt_buy.parquet",
        title1=["a", "a", "b", "c"],
        title2=["A", "B", "A", "C"],
        label=[1, 1, 0, 0],
    )
    pairs = product_pairs(path)
    assert (pairs.main, pairs.queries, pairs.texts) == ("R_cap@10", ["a"], ["A", "B", "C"])
    assert answers(pairs) == {"000000": {"000000": 1, "000001": 1}}
    assert pairs.hidden == {}


def test_titles_of_a_cluster_look_for_each_other(tmp_path: Path):
    """The title b stands in two clusters; d is alone; e and f are a cluster of their own."""
    path = write(
        tmp_path / "product_wdc_clusters.parquet",
        cluster_id=[0, 0, 1, 1, 2, 3, 3],
        title=["a", "b", "b", "c", "d", "e", "f"],
    )
    clusters = product_clusters(path)
    assert clusters.texts == ["a", "b", "c", "d", "e", "f"]
    title = dict(zip(clusters.document_ids, clusters.texts, strict=True))
    named = {title[q]: {title[d] for d in own} for q, own in answers(clusters).items()}
    assert named == {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}, "e": {"f"}, "f": {"e"}}
    hidden = {
        clusters.queries[k]: title[clusters.document_ids[v[0]]] for k, v in clusters.hidden.items()
    }
    assert hidden == {query: query for query in "abcef"}
    tied = dict(zip(clusters.queries, clusters.tied.tolist(), strict=True))
    assert tied["a"] == tied["b"] == tied["c"] != tied["e"] == tied["f"]


def test_paraphrase_is_sought_without_copies_of_either_side(tmp_path: Path):
    path = write(
        tmp_path / "pairs.parquet",
        sentence1=["a", "a", "x", "b"],
        sentence2=["b", "y", "a", "z"],
        score=[5.0, 4.8, 0.0, None],
    )
    collection = sts_retrieval(path)
    assert (collection.main, collection.queries) == ("R@5", ["a"])
    assert answers(collection) == {"00000-1": {"00000-2": 1}}
    hidden = [collection.document_ids[k] for k in collection.hidden[0].tolist()]
    assert sorted(hidden) == ["00000-1", "00001-1", "00002-2", "00003-1"]


def test_unreadable_parquet_and_missing_columns_differ_in_code(tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=r"absent\.parquet"):
        sts_retrieval(tmp_path / "absent.parquet")
    with pytest.raises(MissingColumnError, match=r"lacks score\. .*sentence1, sentence2"):
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
        ("npl", "ir_npl_docs", {"sentences": [["a"], None]}),
        ("scitldr_titles", "pairs_scitldr_dev", {"sentences": [["A."], []]}),
        ("scitldr_summaries", "pairs_scitldr_dev", {"tldrs": [["c"], [None]]}),
    ],
)
def test_row_without_a_value_is_named(
    tmp_path: Path, source: str, name: str, wrong: dict[str, list]
):
    files: dict[str, dict[str, list]] = {
        "ir_npl_docs": {"doc_id": ["1", "2"], "text": ["a", None], "sentences": [["a"], []]},
        "pairs_scitldr_dev": {
            "doc_id": ["1", "2"],
            "title": ["a", "b"],
            "sentences": [["A."], ["B."]],
            "tldrs": [["c", "d"], ["e"]],
        },
        "ir_npl_queries": {"query_id": ["1", "2"], "text": ["b", "c"]},
        "ir_npl_qrels": {"query_id": ["1", "1"], "doc_id": ["1", "2"], "rel": [1, 1]},
        "product_abt_buy": {"title1": ["a", "b"], "title2": ["A", "B"], "label": [1, 1]},
        "product_wdc_clusters": {"cluster_id": [0, 0], "title": ["a", "b"]},
        "stsb_test": {"sentence1": ["a", "b"], "sentence2": ["A", "B"], "score": [5.0, 4.0]},
    }
    for file, columns in files.items():
        write(tmp_path / f"{file}.parquet", **columns | (wrong if file == name else {}))
    (column,) = wrong
    with pytest.raises(
        BadDataError, match=rf"Column {column} .*\b1 row of .*{name}\.parquet .*row 1\b"
    ):
        read_collection(task_of(source), tmp_path)


@pytest.mark.parametrize(
    ("source", "documents", "queries", "judgements"),
    [
        ("cranfield", 1400, 225, 1612),
        ("cacm", 3204, 52, 796),
        ("npl", 11426, 93, 2083),
        ("wdc_clusters", 9500, 8618, None),
        ("amazon_google", 2043, 990, None),
        ("abt_buy", 1034, 1016, None),
        ("scitldr_titles", 619, 619, 619),
        ("scitldr_summaries", 619, 619, 619),
    ],
)
def test_open_sets_have_their_published_sizes(
    larger_sets: Path, source: str, documents: int, queries: int, judgements: int | None
):
    collection = read_collection(task_of(source), larger_sets)
    assert (len(collection.texts), len(collection.queries)) == (documents, queries)
    assert len(collection.relevant.query) == queries, "each has a relevant document"
    if judgements is None:
        assert len(set(collection.texts)) == documents
    else:
        assert len(collection.relevant.item) == judgements


@pytest.mark.parametrize(("by", "queries"), [("title", ["a", "b"]), ("summary", ["c", "e"])])
def test_a_paper_answers_its_title_or_its_first_summary(
    tmp_path: Path, by: Literal["title", "summary"], queries: list[str]
):
    file = write(
        tmp_path / "papers.parquet",
        doc_id=["1", "2"],
        title=["a", "b"],
        sentences=[["A.", "B."], ["C."]],
        tldrs=[["c", "d"], ["e"]],
    )
    found = summarised_papers(file, by)
    assert (found.main, found.queries, found.documents) == ("MRR@10", queries, ["A. B.", "C."])
    assert found.sentences == [["A.", "B."], ["C."]]
    assert found.relevant.item.tolist() == [0, 1]
    assert not found.hidden


def test_a_file_states_the_sentences_of_all_its_documents_or_of_none(tmp_path: Path):
    """Cranfield's texts have no capitals: a splitter would leave them whole."""
    rows = {"doc_id": ["1", "2"], "title": ["t", ""], "text": ["a . b .", ""]}
    queries = write(tmp_path / "queries.parquet", query_id=["1"], text=["a"])
    judged = write(tmp_path / "judged.parquet", query_id=["1"], doc_id=["1"], rel=[1])
    stated = write(tmp_path / "stated.parquet", **rows, sentences=[["a .", "b ."], []])
    found = read_trec_style(stated, queries, judged)
    assert found.sentences == [["a .", "b ."], []]
    assert stated_sentences(found) == [["t", "a .", "b ."], [""]]
    whole = read_trec_style(write(tmp_path / "whole.parquet", **rows), queries, judged)
    assert (whole.sentences, stated_sentences(whole)) == (None, None)


def test_infocse_has_97_queries_in_a_pool_of_2758(larger_sets: Path):
    found = sts_retrieval(larger_sets / "stsb_test.parquet")
    assert (len(found.queries), len(found.texts), len(set(found.texts))) == (97, 2758, 2551)
    assert np.diff(found.relevant.offsets).tolist() == [1] * 97
    times = Counter(found.texts)
    assert sum(times[query] > 1 for query in found.queries) == 31
