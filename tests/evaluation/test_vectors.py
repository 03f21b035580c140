"""Document and candidate vectors against plain loops."""

from dataclasses import replace

import numpy as np
import pytest

from sentemb_core.encoder.batching import embed_texts, encode
from sentemb_core.encoder.prompts import Prompts
from sentemb_core.errors import BadDataError, BadEmbeddingError
from sentemb_core.evaluation import vectors
from sentemb_core.evaluation.collection_vectors import collection_vectors
from sentemb_core.evaluation.vectors import encoder_scorers, pool_vectors, span_means
from tests import tiny
from tests.evaluation.made import judged_run


def gaussian(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 6)).astype(np.float32)


def embed(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), text.count("w"), 1] for text in texts], np.float32)


def rows_of(corpus, document: int) -> slice:
    return slice(*corpus.offsets[document : document + 2])


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_document_is_the_mean_of_its_sentences(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vectors, "BLOCK", block)
    sentences, offsets = gaussian(20), np.array([0, 1, 6, 9, 20])
    asked = np.array([3, 0, 2])
    found = span_means(sentences.__getitem__, offsets[asked], offsets[asked + 1])
    expected = [sentences[offsets[d] : offsets[d + 1]].mean(axis=0) for d in asked]
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_sentences_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vectors, "BLOCK", 10)
    sentences, read = gaussian(400), []

    def rows(wanted: np.ndarray) -> np.ndarray:
        read.append(len(wanted))
        return sentences[wanted]

    span_means(rows, np.arange(0, 400, 4), np.arange(4, 404, 4))
    assert max(read) <= 12  # whole documents of 4
    assert sum(read) == 400


def test_document_without_sentences_is_refused():
    with pytest.raises(BadDataError, match="1 of 2 "):
        span_means(gaussian(3).__getitem__, np.array([0, 3]), np.array([3, 3]))


def test_means_are_normalised_for_cosine(titled):
    corpus, pool = titled.corpus, titled.pool
    sentences = gaussian(len(corpus))[:, :3] + 1
    documents, candidates = pool_vectors(corpus, pool, sentences.__getitem__, embed, "cosine")
    own = [sentences[rows_of(corpus, document)] for document in pool.query_document]
    means = np.stack([rows.mean(axis=0) for rows in own])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    assert documents == pytest.approx(means / lengths, abs=1e-6)
    assert np.linalg.norm(candidates, axis=1) == pytest.approx(1, abs=1e-6)
    raw, titles = pool_vectors(corpus, pool, sentences.__getitem__, embed, "dot")
    assert raw == pytest.approx(means, abs=1e-6)
    assert titles.tolist() == embed([text or "" for text in pool.candidate_text]).tolist()


def test_zero_vectors_score_0(titled):
    corpus, pool = titled.corpus, titled.pool
    sentences = gaussian(len(corpus))[:, :3]
    sentences[rows_of(corpus, pool.query_document[1])] = 0

    def knows_all_but_the_first(texts: list[str]) -> np.ndarray:
        found = embed(texts)
        found[0] = 0
        return found

    documents, candidates = pool_vectors(
        corpus, pool, sentences.__getitem__, knows_all_but_the_first, "cosine"
    )
    scores = documents @ candidates.T
    assert np.isfinite(scores).all()
    assert not scores[1].any()
    assert not scores[:, 0].any()
    assert np.count_nonzero(scores) == (len(documents) - 1) * (len(candidates) - 1)


def test_halves_are_query_and_candidate(halved):
    corpus, pool = halved.corpus, halved.pool
    sentences = gaussian(len(corpus))
    documents, candidates = pool_vectors(corpus, pool, sentences.__getitem__, embed, "dot")
    assert len(documents) == len(pool.query_document) > 0
    for place, document in enumerate(pool.query_document):
        own = sentences[rows_of(corpus, document)]
        cut = (len(own) + 1) // 2
        assert documents[place] == pytest.approx(own[:cut].mean(axis=0), abs=1e-6)
        candidate = candidates[pool.query_candidate[place]]
        assert candidate == pytest.approx(own[cut:].mean(axis=0), abs=1e-6)


def test_nan_vectors_are_refused(titled):
    sentences = np.full((len(titled.corpus), 3), np.nan, np.float32)
    with pytest.raises(BadEmbeddingError):
        pool_vectors(titled.corpus, titled.pool, sentences.__getitem__, embed, "cosine")


PROMPTS = Prompts({"query": "w20 w21 ", "document": "w30 "})


def test_counterparts_are_queries_and_sentences_are_documents(titled):
    encoder = tiny.static()
    encoder.prompts = PROMPTS
    corpus, pool = titled.corpus, titled.pool
    scores = encoder_scorers(encoder, corpus, pool).counterpart_to_document(np.arange(1))
    title = embed_texts(encoder, [PROMPTS.by_name["query"] + (pool.candidate_text[0] or "")])
    sentences = encode(encoder, corpus.tokens(np.arange(len(corpus))))
    rows = [sentences[rows_of(corpus, document)] for document in pool.query_document]
    means = np.stack([own.mean(axis=0) for own in rows])
    expected = title @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    assert scores == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("form", ["text", "sentence_mean", "unit_sentence_mean"])
def test_the_queries_and_documents_of_a_collection_have_their_prompts(form, tmp_path):
    encoder, prompted = tiny.static(), tiny.static()
    prompted.prompts = PROMPTS
    names = {"query": ["w5 w6", "w7"], "document": ["w7 w8", "w9"]}
    plain = judged_run(tmp_path / "plain", {"q": {"d": 1.0}}, {"q": {"d": 1}})
    found, expected = (
        collection_vectors(
            one,
            replace(
                plain,
                queries=[f"{before.get('query', '')}{text}" for text in names["query"]],
                texts=[f"{before.get('document', '')}{text}" for text in names["document"]],
                titles=["", ""],
            ),
            form,
        )
        for one, before in ((prompted, {}), (encoder, PROMPTS.by_name))
    )
    np.testing.assert_allclose(found.queries, expected.queries, atol=1e-6)
    np.testing.assert_allclose(found.documents, expected.documents, atol=1e-6)


@pytest.mark.parametrize("form", ["text", "unit_sentence_mean"])
def test_the_share_of_cut_texts_of_a_collection_is_logged_once(form, tmp_path, caplog):
    caplog.set_level("INFO")
    collection = replace(
        judged_run(tmp_path / "run", {"q": {"d": 1.0}}, {"q": {"d": 1}}),
        name=f"cut {form}",
        queries=["w5", "w6"],
        titles=["", ""],
        texts=["w7 " * 20, "w8"],
    )
    for _ in range(2):
        collection_vectors(tiny.static(), collection, form)
    lines = [line for line in caplog.messages if "12 tokens" in line]
    shares = {"text": ["25.0%"], "unit_sentence_mean": ["0.0%", "50.0%"]}[form]
    assert len(lines) == len(shares)
    for line, share in zip(lines, shares, strict=True):
        assert f" {share} " in line
        assert ("--max-length" in line) == (share != "0.0%")
