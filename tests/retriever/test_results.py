"""Results of retrievers on test collections, and on a corpus with titles or without."""

from dataclasses import replace

import numpy as np
import pytest
import pytrec_eval

from sentemb_core.corpus.table import Document
from sentemb_core.evaluation import ranking
from sentemb_core.evaluation.collection_files import read_beir
from sentemb_core.evaluation.collection_scores import bm25_result, retrieval_result
from sentemb_core.evaluation.collection_vectors import collection_vectors
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.comparison import comparison
from sentemb_core.evaluation.report_card import ALONE, RETRIEVER, WORDS, evaluate
from sentemb_core.retriever.results import (
    collection_readings,
    retriever_results,
)
from sentemb_core.retriever.scores import scores_of_documents
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from tests.evaluation.made import beir_folder
from tests.retriever.made import WHOLE, documents, retriever

BM25 = RetrieverSpec(words="bm25")
DENSE = RetrieverSpec(vectors=(Vectors(folder=""),))
COUNT = 40


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """40 documents, one of them empty; their titles are queries, some with several answers."""
    made = documents(COUNT)
    texts = {document.doc_id: "\n\n".join(document.sentences) for document in made[:-1]}
    queries = {f"q{k}": document.counterpart or "" for k, document in enumerate(made)}
    judged = [(f"q{k}", f"d{(k + n) % COUNT}", 1 + n) for k in range(COUNT) for n in range(k % 3)]
    judged += [("q0", "d0", 1), ("q3", "d3", 2)]
    folder = tmp_path_factory.mktemp("made") / "made"
    return read_beir(beir_folder(folder, texts | {f"d{COUNT - 1}": ""}, queries, judged))


@pytest.mark.parametrize("spec", [WHOLE, BM25, DENSE, WHOLE.model_copy(update={"unit": "text"})])
def test_values_of_queries_equal_trec_eval(collection: Collection, spec: RetrieverSpec):
    model = retriever(spec)
    scores = scores_of_documents(spec, *collection_readings(model, collection))
    table = scores(np.arange(len(collection.query_ids)))
    run = {
        query: dict(zip(collection.document_ids, row.astype(np.float32).tolist(), strict=True))
        for query, row in zip(collection.query_ids, table, strict=True)
    }
    relevant = collection.relevant
    judged: dict[str, dict[str, int]] = {query: {} for query in collection.query_ids}
    for place, query in enumerate(relevant.query.tolist()):
        own = slice(relevant.offsets[place], relevant.offsets[place + 1])
        for item, grade in zip(relevant.item[own], relevant.grade[own], strict=True):
            judged[collection.query_ids[query]][collection.document_ids[item]] = int(grade)
    found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(run)
    expected = [found.get(query, {}).get("ndcg_cut_10", 0.0) for query in collection.query_ids]
    result = retriever_results(model, collection).whole
    assert (result.main, result.statistic) == ("nDCG@10", "mean")
    np.testing.assert_allclose(result.units[:, 0], expected, atol=1e-6)


def test_words_alone_equal_the_row_of_bm25(collection: Collection):
    found, expected = retriever_results(retriever(BM25), collection), bm25_result(collection)
    assert found.vectors is None
    assert found.whole.measures == expected.measures
    np.testing.assert_array_equal(found.whole.units, expected.units)
    gain = comparison(found.whole, expected)
    assert (gain.difference, gain.low, gain.high, gain.winner) == (0, 0, 0, "undecided")


def test_vectors_alone_equal_the_encoder_with_means_of_unit_sentences(collection: Collection):
    model = retriever(DENSE)
    found = retriever_results(model, collection)
    vectors = collection_vectors(model.encoders[""], collection, "unit_sentence_mean")
    assert found.vectors is None, "they are the whole"
    expected = retrieval_result(vectors, collection)
    np.testing.assert_allclose(found.whole.units, expected.units, atol=1e-9)
    beside = retriever_results(retriever(WHOLE), collection)
    both = replace(retriever(WHOLE), spec=WHOLE.vectors_alone, token_map=None)
    assert beside.vectors
    np.testing.assert_array_equal(
        beside.vectors.units, retriever_results(both, collection).whole.units
    )


def test_blocks_of_queries_change_nothing(collection: Collection, monkeypatch):
    whole = retriever_results(retriever(WHOLE), collection).whole
    monkeypatch.setattr(ranking, "CELLS", 7 * COUNT)
    parts = retriever_results(retriever(WHOLE), collection).whole
    np.testing.assert_allclose(parts.units, whole.units, atol=1e-12)


def corpus() -> list[Document]:
    """40 documents of two sentences or more."""
    made = documents(COUNT)
    return [document._replace(sentences=[*document.sentences, "w4 w5"]) for document in made]


def test_a_corpus_is_scored_in_both_directions():
    found = evaluate(retriever(WHOLE), corpus())
    assert (found.kind, [*found.systems]) == ("counterpart", [RETRIEVER, WORDS, ALONE])
    forward, backward = found.queries
    assert found.queries[backward] <= found.queries[forward] == COUNT
    for way in (forward, backward):
        own, words = (found.systems[name][way]["R@5"] for name in (RETRIEVER, WORDS))
        assert found.gains[way]["R@5"].mean == pytest.approx(own.mean - words.mean)


@pytest.mark.parametrize("kind", ["counterpart", "halves"])
def test_words_alone_equal_bm25_on_a_corpus(kind: str):
    untitled = [document._replace(counterpart=None) for document in corpus()]
    found = evaluate(retriever(BM25), untitled if kind == "halves" else corpus())
    assert found.kind == kind
    assert found.systems[RETRIEVER] == found.systems[WORDS]
    for gains in found.gains.values():
        assert {(gain.low, gain.mean, gain.high) for gain in gains.values()} == {(0, 0, 0)}
