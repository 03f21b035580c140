"""A pool as both sides of a retriever: pseudo-queries, and what is read back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.evaluation.validation_scores import rank_pool
from sentemb_core.retriever.pool import (
    SPAN,
    Pair,
    _span,
    pool_pairs,
    pool_scorers,
    pool_texts,
    read_readings,
    write_readings,
)
from sentemb_core.retriever.spec import RetrieverSpec, Unit, Vectors
from sentemb_core.retriever.vectors import Sides
from tests import tiny
from tests.retriever.made import retriever

KINDS = ["first half", "first sentence", "span"]


def folder_of(path: Path, documents: list[Document]) -> tuple[Path, ValidationPool]:
    write_rows(path / "documents.parquet", documents)
    write_validation_pool(path / "documents.parquet", ValidationConfig(), path)
    return path, ValidationPool.open(path)


@pytest.fixture
def without_titles(tmp_path: Path) -> tuple[Path, ValidationPool]:
    """A hundred documents of two to six sentences without titles."""
    return folder_of(
        tmp_path,
        [
            Document(f"d{k}", [f"w{4 + k % 70} w{4 + n}" for n in range(2 + k % 5)], None, k)
            for k in range(100)
        ],
    )


def test_each_pseudo_query_leaves_a_rest_of_its_document(
    without_titles: tuple[Path, ValidationPool],
):
    folder, pool = without_titles
    pairs = pool_pairs(folder, pool)
    assert list(pairs) == KINDS
    whole = [2 + int(doc_id[1:]) % 5 for doc_id in pool.query_doc_id]
    for pair in pairs.values():
        for text, rest, sentences in zip(pair.texts, pair.documents, whole, strict=True):
            assert text
            assert rest
            assert len(text) + len(rest) == sentences
            assert not set(text) & set(rest)
    assert {len(text) for text in pairs["first sentence"].texts} == {1}
    assert [len(t) for t in pairs["first half"].texts] == [(n + 1) // 2 for n in whole]


@given(st.integers(2, 30), st.text(max_size=8))
def test_a_span_is_short_and_the_same_for_the_same_document(count: int, doc_id: str):
    first, last = _span(count, doc_id)
    assert _span(count, doc_id) == (first, last)
    assert 0 <= first < last <= count
    assert SPAN[0] <= last - first <= min(SPAN[1], count - 1)


def test_spans_begin_anywhere():
    bounds = [_span(10, f"d{k}") for k in range(300)]
    assert {first for first, _ in bounds} == set(range(10))
    assert {last - first for first, last in bounds} == {1, 2, 3}


def test_titles_look_for_whole_documents(tmp_path: Path):
    folder, pool = folder_of(
        tmp_path,
        [Document(f"d{k}", [f"One {k}.", "Two."], f"Title {k // 2}", k) for k in range(20)],
    )
    ((kind, pair),) = pool_pairs(folder, pool).items()
    assert kind == "counterpart"
    assert len(pair.texts) == pool.n_candidates == 10
    assert len(pair.documents) == 20
    assert all(len(sentences) == 2 for sentences in pair.documents)


def test_readings_come_back_as_they_were_written(tmp_path: Path):
    pairs = {"counterpart": Pair([["w5 w6"], ["w7"]], [["w5", "w8 w9"], ["w7 w10"]])}
    map_ = retriever().token_map
    for name, encoder, token_map in (("a", tiny.bert(), map_), ("b", tiny.static(), None)):
        (tmp_path / name).mkdir()
        write_readings(encoder, token_map, pairs, tmp_path / name, whole_texts=name == "a")
    folders = {name: tmp_path / name for name in "ab"}
    ((texts, documents),) = read_readings(pairs, pool_texts(pairs), folders).values()
    assert texts.texts.items == ["w5 w6", "w7"]
    assert documents.texts.items == ["w5 w8 w9", "w7 w10"]
    assert set(documents.vectors) == {"a", "b"}
    assert set(documents.tokens) == set(texts.tokens) == {"a"}
    assert documents.tokens["a"].rows.dtype == np.int8
    assert documents.vectors["b"].starts.tolist() == [0, 2, 3]
    direct = retriever(RetrieverSpec(vectors=(Vectors(folder="table"),)))
    expected: Sides = direct.read_documents(pairs["counterpart"].documents).vectors["table"]
    np.testing.assert_array_equal(documents.vectors["b"].vectors, expected.vectors)
    assert set(documents.whole) == set(texts.whole) == {"a"}
    assert not texts.whole["a"].any(), "a text of one sentence is read once"
    whole = tiny_vector("w5 w8 w9")
    np.testing.assert_allclose(documents.whole["a"][0], whole, atol=1e-6)
    both = documents.side(RetrieverSpec(vectors=(Vectors(folder="a"),), unit="both"))
    summed = documents.vectors["a"].vectors[0] + whole
    np.testing.assert_allclose(both.vectors[0], summed / np.linalg.norm(summed), atol=1e-6)


@pytest.mark.parametrize("unit", ["sentences", "text", "both"])
def test_progress_ends_at_the_number_of_sentences(unit: Unit):
    """Two readings count half each, so that the time left stays right."""
    model = retriever(RetrieverSpec(vectors=(Vectors(folder=""),), unit=unit))
    documents, seen = [[f"w{k} w5", f"w6 w{k}"] for k in range(7, 40)], list[int]()
    model.read_documents(documents, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == (33 if unit == "text" else 66)


def tiny_vector(text: str) -> np.ndarray:
    """The direction of a text that `tiny.bert` reads as one."""
    vector = embed_texts(tiny.bert(), [text])[0]
    return vector / np.linalg.norm(vector)


def test_a_pseudo_query_finds_the_rest_that_repeats_its_words(tmp_path: Path):
    """Every document has a word of its own in all sentences: words alone find every rest."""
    folder, pool = folder_of(
        tmp_path,
        [Document(f"d{k}", [f"own{k} a{k}x{n}" for n in range(4)], None, k) for k in range(60)],
    )
    pairs = pool_pairs(folder, pool)
    spec = RetrieverSpec(words="bm25")
    for kind, (texts, documents) in read_readings(pairs, pool_texts(pairs), {}).items():
        ranks = rank_pool(pool, pool_scorers(spec, texts, documents, kind), "test")
        assert ranks.document_to_counterpart.best.max() == 1
        assert ranks.counterpart_to_document.best.max() == 1
