"""Terms of the lexical part, and its scores against rank_bm25's formula by hand."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

from sentemb_core.retrieval.bm25 import ENGLISH
from sentemb_core.retriever.words import TERMS, Texts, letter_grams, plain_words, stems
from sentemb_core.tokenize import words

TEXT = st.lists(
    st.sampled_from(["storm", "storms", "stormy", "harbour", "the", "damage", "damaged", "x"]),
    max_size=8,
).map(" ".join)


def oracle(query: str, texts: list[str], terms) -> list[float]:
    """BM25 of the module's docstring, term by term."""
    split = [list(terms(text)) for text in texts]
    mean = sum(map(len, split)) / len(split) or 1
    total = [0.0] * len(texts)
    for term, qtf in Counter(terms(query)).items():
        df = sum(term in some for some in split)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for n, some in enumerate(split):
            if tf := some.count(term):
                norm = 1.2 * (0.25 + 0.75 * len(some) / mean)
                total[n] += idf * tf * 2.2 / (tf + norm) * qtf * 9 / (qtf + 8)
    return total


@given(texts=st.lists(TEXT, min_size=2, max_size=6), query=TEXT)
def test_scores_are_sums_of_standardised_bm25(texts: list[str], query: str):
    expected = np.zeros(len(texts))
    for terms in (stems, letter_grams):
        scores = np.array(oracle(query, texts, terms))
        expected += 0 if np.ptp(scores) < 1e-9 else zscore(scores)
    found = Texts([query]).lexical_scores("stems_and_letters", Texts(texts))(np.array([0]))[0]
    assert found == pytest.approx(expected, abs=1e-6)


@given(texts=st.lists(TEXT, min_size=1, max_size=6), query=TEXT)
def test_whole_words_are_bm25_itself(texts: list[str], query: str):
    found = Texts([query]).lexical_scores("bm25", Texts(texts))(np.array([0]))[0]
    assert found == pytest.approx(np.array(oracle(query, texts, plain_words)), abs=1e-9)


def test_terms_of_a_text():
    assert [*stems("The Harbourmaster's storms")] == ["harbou", "storms"]
    assert [*letter_grams("the storm")] == [" sto", "stor", "torm", "orm "]
    assert [*letter_grams("a x")] == [" x "]


@given(text=st.text(max_size=40))
def test_every_word_that_is_no_stop_word_has_terms(text: str):
    kept = [word for word in words(text) if word not in ENGLISH]
    assert [*plain_words(text)] == kept
    assert [*stems(text)] == [word[:6] for word in kept]
    grams = [*letter_grams(text)]
    assert len(grams) == sum(max(1, len(word) - 1) for word in kept)
    assert max(map(len, grams), default=0) <= 4


def test_chinese_characters_are_words():
    texts = ["今天天气很好", "股票下跌了"]
    scores = Texts(["股票"]).lexical_scores("stems_and_letters", Texts(texts))(np.array([0]))[0]
    assert scores[1] > scores[0]


def test_both_kinds_have_terms():
    assert {kind: len(terms) for kind, terms in TERMS.items()} == {
        "bm25": 1,
        "stems_and_letters": 2,
    }
