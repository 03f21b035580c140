"""The Python interface: five lines each, without the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest

import sentemb_core
from sentemb_core import api
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import (
    EmptyCorpusError,
    MissingEncoderError,
    UsageError,
)
from sentemb_core.evaluation.report_card import MEASURES
from sentemb_core.retriever.folder import save_retriever
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from tests import tiny
from tests.retriever import made

TEXTS = ["w5 w6. W7 w8!", "w20 w21 w22", "w9 w10"]
MAPPINGS = [
    {"id": "a", "text": "w5 w6 w7", "title": "w5", "url": "ignored"},
    {"id": 7, "sentences": ["w20 w21", "w22"], "title": "w21 w22"},
    {"text": "w30 w31", "title": "w30"},
]


def whole(count: int = 40) -> list[dict]:
    return [
        {"id": each.doc_id, "sentences": each.sentences, "title": each.counterpart}
        for each in made.documents(count)
    ]


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, sentemb_core\n"
        "print(sorted({'torch', 'numpy', 'pyarrow', 'transformers'} & set(sys.modules)))\n"
        "sentemb_core.load\n"
        "print(sorted({'prefect', 'mlflow'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "[]"]


def test_the_package_has_no_other_name():
    assert set(dir(sentemb_core)) == set(sentemb_core.INTERFACE) == set(api.__all__)
    assert not hasattr(sentemb_core, "nosuch")
    assert api.__all__ == sentemb_core.INTERFACE


def test_load_opens_a_retriever_and_an_encoder(tmp_path):
    retriever = made.retriever()
    retriever.save(tmp_path / "retriever")
    save_encoder(tiny.static(), tmp_path / "encoder", "card")
    loaded = sentemb_core.load(tmp_path / "retriever")
    assert loaded.spec == made.WHOLE
    assert loaded.encode_queries(["w5"]) == pytest.approx(retriever.encode_queries(["w5"]))
    assert sentemb_core.load(str(tmp_path / "encoder")).spec.words is None
    with pytest.raises(UsageError):
        retriever.save(tmp_path / "encoder")


@pytest.mark.parametrize(
    ("name", "error"),
    [("models:/news@champion", UsageError), ("/nosuch/folder", MissingEncoderError)],
)
def test_load_refuses_other_names(name, error):
    with pytest.raises(error):
        sentemb_core.load(name)


def test_a_retriever_of_words_alone_has_no_vectors(tmp_path):
    save_retriever(made.retriever(RetrieverSpec(words="bm25")), tmp_path / "words", "card")
    words = sentemb_core.load(tmp_path / "words")
    for encode in (words.encode, words.encode_queries, words.encode_documents):
        with pytest.raises(UsageError):
            encode(["w5"])
    assert [hit.doc_id for hit in words.search("w21", TEXTS)] == ["row-1"]


def test_texts_are_split_and_lists_are_sentences():
    retriever = made.retriever()
    texts = retriever.encode_documents(TEXTS)
    lists = retriever.encode_documents([["w5 w6.", "W7 w8!"], ["w20 w21 w22"], ["w9 w10"]])
    assert texts == pytest.approx(lists, abs=1e-6)
    assert np.linalg.norm(texts, axis=1) == pytest.approx(1, abs=1e-5)
    assert retriever.encode_documents([""]).shape == (1, 32)


@pytest.mark.parametrize("name", ["encode", "encode_queries", "encode_documents"])
def test_one_text_is_not_read_as_its_characters(name):
    with pytest.raises(UsageError):
        getattr(made.retriever(), name)("w5 w6")


def test_one_text_is_neither_documents_nor_queries(tmp_path):
    with pytest.raises(UsageError):
        sentemb_core.Index.build(made.retriever(), "w5 w6", tmp_path / "index")
    index = sentemb_core.Index.build(made.retriever(), TEXTS, tmp_path / "index")
    with pytest.raises(UsageError):
        index.search_all("w5 w6")


def test_encode_joins_the_vectors_of_the_encoders():
    retriever = made.retriever()
    first, second = (embed_texts(retriever.encoders[name], TEXTS) for name in ("", "table"))
    expected = np.concatenate([0.7**0.5 * first, 0.3**0.5 * second], axis=1)
    assert retriever.encode(TEXTS) == pytest.approx(expected, abs=1e-6)
    assert retriever.encode(TEXTS) == pytest.approx(retriever.encode_queries(TEXTS), abs=1e-6)


def test_queries_and_documents_have_their_prompts():
    from dataclasses import replace

    from sentemb_core.encoder.prompts import Prompts

    encoder = tiny.bert()
    spec = RetrieverSpec(vectors=(Vectors(folder=""),))
    plain = replace(made.retriever(spec), encoders={"": encoder})
    expected = plain.encode(["w70 w5", "w71 w5", "w5"])
    encoder.prompts = Prompts({"query": "w70 ", "document": "w71 "})
    found = [*plain.encode_queries(["w5"]), *plain.encode_documents(["w5"]), *plain.encode(["w5"])]
    assert np.stack(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("documents", [TEXTS, [text.split() for text in TEXTS], MAPPINGS])
def test_search_and_index_take_the_same_documents(tmp_path, documents):
    retriever = made.retriever()
    hits = retriever.search("w21 w22", documents, top=2)
    index = sentemb_core.Index.build(retriever, documents, tmp_path / "index")
    assert index.search("w21 w22", top=2) == hits
    assert hits[0].doc_id == ("7" if documents is MAPPINGS else "row-1")
    assert hits[0].counterpart == ("w21 w22" if documents is MAPPINGS else None)


def test_an_index_remembers_its_retriever(tmp_path):
    retriever = made.retriever()
    retriever.save(tmp_path / "model")
    place = tmp_path / "index"
    sentemb_core.Index.build(retriever, TEXTS, place, model=str(tmp_path / "model"))
    index = sentemb_core.Index.open(place)
    assert index.search("w5")[0].doc_id == "row-0"
    index.update([*TEXTS, "w40 w41"])
    assert sentemb_core.Index.open(str(place)).search("w40")[0].doc_id == "row-3"
    unnamed = sentemb_core.Index.build(retriever, TEXTS, tmp_path / "unnamed")
    with pytest.raises(UsageError):
        sentemb_core.Index.open(unnamed.folder)


def test_unusable_documents_are_left_out_with_a_warning(caplog):
    documents = [*MAPPINGS, {"text": ""}, {"text": 5}, {"id": "", "text": "w5"}]
    assert len(made.retriever().search("w5", documents)) == 3
    assert sum("left out" in record.message for record in caplog.records) == 1


def test_read_counts_the_rows_it_leaves_out(tmp_path, caplog):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (*MAPPINGS[:1], {"id": "b"}, {})))
    columns = {"id_column": "id", "text_column": "text"}
    assert [each.doc_id for each in sentemb_core.read(file, **columns)] == ["a"]
    assert sum("2 of 3 rows" in record.message for record in caplog.records) == 1
    with pytest.raises(UsageError):
        sentemb_core.read(file, id_colum="id")


@pytest.mark.parametrize("document", [5, None, {"body": "w5"}])
def test_an_item_that_is_no_document_is_refused(document):
    with pytest.raises(UsageError):
        made.retriever().search("w5", iter(["w6", document]))


def test_no_document_is_refused():
    with pytest.raises(EmptyCorpusError):
        made.retriever().search("w5", [])
    with pytest.raises(EmptyCorpusError):
        sentemb_core.evaluate(made.retriever(), [])


def test_evaluate_has_intervals_in_both_directions_and_bm25_beside_them():
    scores = sentemb_core.evaluate(made.retriever(), whole())
    ways = ["document to counterpart", "counterpart to document"]
    assert ([*scores.queries], [*scores.candidates], [*scores.gains]) == (ways, ways, ways)
    assert (scores.kind, scores.queries[ways[0]]) == ("counterpart", 40)
    assert {"this retriever", "BM25", "vectors alone"} == {*scores.systems}
    for figures in scores.systems.values():
        for way in ways:
            assert [*figures[way]] == [*MEASURES]
            assert all(each.low <= each.mean <= each.high for each in figures[way].values())
    for way in ways:
        own, words = (scores.systems[name][way]["R@5"].mean for name in ("this retriever", "BM25"))
        assert scores.gains[way]["R@5"].mean == pytest.approx(own - words)
    assert all(way in str(scores) for way in ways)


def test_evaluate_reads_files(tmp_path):
    source = tmp_path / "documents.jsonl"
    source.write_text("".join(json.dumps(each) + "\n" for each in whole()), encoding="utf-8")
    columns = {"id_column": "id", "sentences_column": "sentences", "counterpart_column": "title"}
    documents = sentemb_core.read(source, **columns)
    own = sentemb_core.evaluate(made.retriever(), documents)
    assert own.systems == sentemb_core.evaluate(made.retriever(), whole()).systems
    texts = tmp_path / "texts.jsonl"
    rows = [{"text": ". ".join(each["sentences"]).replace("w", "W")} for each in whole()]
    texts.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    assert sentemb_core.evaluate(made.retriever(), texts).kind == "halves"


def test_titles_that_equal_their_texts_give_a_warning(caplog):
    documents = [
        document._replace(counterpart=" ".join(document.sentences))
        for document in made.documents(20)
    ]
    sentemb_core.evaluate(made.retriever(), documents)
    assert sum("equal" in record.message for record in caplog.records) == 1
