"""BM25 against the formula, written out in plain Python, and against numbers worked out by hand."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.retrieval.bm25 import BM25

TEXTS = st.lists(
    st.lists(st.sampled_from(list("abcde")), max_size=8).map(" ".join), min_size=1, max_size=8
)


def oracle(query: str, texts: list[str]) -> list[float]:
    """The sum of the module's docstring, term by term."""
    split = [text.split() for text in texts]
    mean = sum(map(len, split)) / len(split) or 1
    total = [0.0] * len(texts)
    for word, qtf in Counter(query.split()).items():
        df = sum(word in words for words in split)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for n, words in enumerate(split):
            tf = words.count(word)
            if tf:
                length = 1 - 0.75 + 0.75 * len(words) / mean
                total[n] += idf * tf * 2.2 / (tf + 1.2 * length) * qtf * 9 / (qtf + 8)
    return total


def test_the_lucene_scores_worked_out_by_hand_come_out():
    scores = BM25(["a b", "a b c a", "c d"]).scores(["a c"])
    assert scores[0] == pytest.approx([0.523548, 0.956771, 0.523548], abs=1e-6)  # METHODS.md 1.20


@settings(deadline=None, max_examples=60)
@given(texts=TEXTS, queries=TEXTS)
def test_scores_are_the_formula_term_by_term(texts: list[str], queries: list[str]):
    scores = BM25(texts).scores(queries)
    assert scores == pytest.approx(np.array([oracle(query, texts) for query in queries]), abs=1e-9)


def test_a_word_said_a_hundred_times_counts_less_than_nine_times():
    index = BM25(["the end", "tax forms"])
    once, often = index.scores(["the", "the " * 100])[:, 0]
    assert once < often < 9 * once


def test_words_are_lowercased_runs_in_any_script_and_punctuation_is_nothing():
    index = BM25(["Überstunden, bitte!", "北京 2024"])
    assert (index.scores(["überstunden", "北京", "!?", "unknown"]) > 0).tolist() == [
        [True, False],
        [False, True],
        [False, False],
        [False, False],
    ]


def test_texts_without_a_word_score_nothing():
    assert BM25(["...", ""]).scores(["a", "..."]).tolist() == [[0, 0], [0, 0]]


def test_ids_of_words_follow_their_first_appearance_so_that_sums_have_one_order():
    assert list(BM25(["b a", "c a"]).vocabulary) == ["", "b", "a", "c"]


def test_rows_can_be_asked_for_one_by_one_and_again():
    index, queries = BM25(["a b", "b c", "c"]), ["a", "b c", "c c"]
    rows = index.score_rows(queries)
    assert rows(np.array([2, 0, 2])) == pytest.approx(index.scores(queries)[[2, 0, 2]])


def test_the_index_is_quiet(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    with caplog.at_level(0):
        BM25(["a b", "c"]).scores(["a"])
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
