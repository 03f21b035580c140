"""Overlap by hand, and against Python sets."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.evaluation.contamination import Overlap, overlaps

EIGHT = "one two three four five six seven eight"
SENTENCES = st.lists(st.sampled_from("abc"), max_size=14).map(" ".join)


def test_texts_match_sentences_and_documents_by_words():
    corpus = [["A cat sat.", "It slept!"], ["Dogs bark."]]
    texts = ["a CAT sat", "a cat sat it slept", "dogs", "", "...", "Dogs bark", "dogs bark!"]
    found = overlaps(corpus, {"task": texts})["task"]
    # different texts with a word: a cat sat; a cat sat it slept; dogs; dogs bark, twice the same
    assert found == Overlap(texts=4, exact=3 / 4, runs=None)


def test_runs_match_across_sentences_of_one_document():
    first, second = EIGHT.split(" ")[:4], EIGHT.split(" ")[4:]
    halves = [" ".join(first), " ".join(second)]
    texts = {"task": [EIGHT, f"{EIGHT} nine"]}
    assert overlaps([halves], texts)["task"].runs == 1 / 2
    assert overlaps([[half] for half in halves], texts)["task"].runs == 0.0


def test_word_order_counts():
    backwards = " ".join(reversed(EIGHT.split()))
    assert overlaps([[backwards]], {"task": [EIGHT]})["task"] == Overlap(texts=1, exact=0, runs=0)


def test_every_set_has_its_own_shares():
    found = overlaps([[EIGHT]], {"in": [EIGHT], "out": ["other words"], "none": []})
    assert [found[name].exact for name in ("in", "out", "none")] == [1, 0, 0]
    assert found["in"].runs == 1


@given(
    corpus=st.lists(st.lists(SENTENCES, max_size=3), max_size=4),
    texts=st.lists(SENTENCES, max_size=5),
)
def test_shares_equal_those_of_python_sets(corpus: list[list[str]], texts: list[str]):
    documents = [tuple(chain(*(one.split() for one in sentences))) for sentences in corpus]
    known = {*documents, *(tuple(one.split()) for sentences in corpus for one in sentences)}
    known_runs = {run for document in documents for run in runs_of(document)}
    asked = {tuple(text.split()) for text in texts} - {()}
    asked_runs = {run for text in asked for run in runs_of(text)}
    found = overlaps(corpus, {"task": texts})["task"]
    assert found.texts == len(asked)
    if asked:
        assert found.exact == pytest.approx(len(asked & known) / len(asked))
    expected = len(asked_runs & known_runs) / len(asked_runs) if asked_runs else None
    assert found.runs == (None if expected is None else pytest.approx(expected))


def runs_of(words: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {words[k : k + 8] for k in range(len(words) - 7)}
