"""What a batch compares: sentences, contexts, and who may be negative to whom."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.methods.ict import context, surroundings
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    content_of,
    first,
    negatives,
    owners,
    positives,
    ranks,
    rows_of,
    second,
)
from tests import tiny
from tests.examples import at_least
from tests.methods.drawing import every_sentence, listed, numbered, seen, texts_of, words


def rng(seed=0):
    return np.random.default_rng(seed)


rows_of_labels = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=6)


def view_of(rows, *, worded=False):
    document, group, text = np.array(rows, dtype=np.int64).T
    wording = (text + document) % 4 if worded else None
    return View([np.array([1])] * len(rows), document, group, text, wording=wording)


def slow_negatives(left, right, positive):
    def repeats(mine, theirs, i, j):
        return theirs[j] in {mine[i], *theirs[positive[i]]}

    def wording_of(view):
        return view.text if view.wording is None else view.wording

    def allowed(i, j):
        return (
            left.document[i] != right.document[j]
            and not repeats(left.text, right.text, i, j)
            and not repeats(wording_of(left), wording_of(right), i, j)
        )

    return [[allowed(i, j) for j in range(len(right))] for i in range(len(left))]


@given(rows_of_labels, rows_of_labels, st.booleans(), st.booleans())
@at_least(200)
def test_negatives_come_from_other_documents_and_are_no_duplicates(left, right, slices, contexts):
    left, right = view_of(left, worded=slices), view_of(right, worded=contexts)
    positive = positives(left, right)
    assert positive.tolist() == (left.group[:, None] == right.group).tolist()
    assert negatives(left, right, positive).tolist() == slow_negatives(left, right, positive)


@given(rows_of_labels)
def test_a_row_is_neither_positive_nor_negative_to_itself(rows):
    view = view_of(rows)
    positive = positives(view, view)
    assert not positive.diagonal().any()
    assert not negatives(view, view, positive).diagonal().any()
    assert (positive == positive.T).all()


def test_views_of_sentences_carry_their_documents_and_texts():
    corpus = tiny.corpus([2, 3])
    draw = Draw(np.array([0, 4]), np.array([1, 2]), np.array([0, 1]))
    left, right = first(corpus, draw, rng()), second(corpus, draw, rng())
    assert [t.tolist() for t in left.tokens] == [corpus.sentences[k].tolist() for k in (0, 4)]
    assert [t.tolist() for t in right.tokens] == [corpus.sentences[k].tolist() for k in (1, 2)]
    assert left.document.tolist() == [0, 1]
    assert right.text.tolist() == corpus.text_hashes[[1, 2]].tolist()


def test_with_removal_the_sentence_is_never_in_its_context_and_without_always():
    corpus = numbered([4, 2, 5])
    for removal, inside in ((1.0, False), (0.0, True)):
        view = context(removal, 286)(corpus, every_sentence(corpus), rng())
        for k, tokens in enumerate(view.tokens):
            document = corpus.document_of[k]
            everyone = range(corpus.offsets[document], corpus.offsets[document + 1])
            assert words(tokens) == [other for other in everyone if inside or other != k]


def test_nine_contexts_in_ten_lose_their_sentence():
    corpus = numbered([2] * 1000)
    view = context(0.9, 286)(corpus, every_sentence(corpus), rng())
    kept = np.mean([len(words(tokens)) == 2 for tokens in view.tokens])
    assert 0.07 < kept < 0.13


def test_a_context_takes_the_nearest_sentences_up_to_its_limit():
    corpus = numbered([9])
    view = context(1.0, 4 * 3)(corpus, every_sentence(corpus), rng())
    assert words(view.tokens[4]) == [2, 3, 5, 6]
    assert words(view.tokens[0]) == [1, 2, 3, 4]
    assert max(map(len, view.tokens)) <= 14


@given(st.floats(0, 1), st.integers(3, 20), st.integers(0, 99))
@settings(max_examples=40)
def test_surroundings_are_the_sentences_of_a_context_each_by_itself(removal, limit, seed):
    corpus = numbered([9, 2, 4])
    draw = every_sentence(corpus)
    text = context(removal, limit)(corpus, draw, np.random.default_rng(seed))
    view = surroundings(removal, limit)(corpus, draw, np.random.default_rng(seed))
    for k, whole in enumerate(text.tokens):
        own = np.flatnonzero(view.owner == k)
        assert [words(view.tokens[row]) for row in own] == [[word] for word in words(whole)]
        assert view.weight[own].tolist() == [1 / len(own)] * len(own)
    sums = owners(view)
    assert (sums.document.tolist(), sums.group.tolist(), sums.text.tolist()) == (
        text.document.tolist(),
        text.group.tolist(),
        text.text.tolist(),
    )


def test_of_a_long_sentence_only_what_an_encoder_reads_fills_the_surroundings():
    corpus = replace(numbered([5]), limit=4)  # two words of three, and the special tokens
    view = surroundings(1.0, 8)(corpus, every_sentence(corpus), rng())
    assert np.bincount(view.owner).tolist() == [4] * 5


def test_surroundings_are_those_of_the_second_sentence():
    corpus = numbered([3, 3])
    draw = Draw(np.array([0, 5]), np.array([1, 3]), np.arange(2))
    view = surroundings(1.0, 60)(corpus, draw, rng())
    assert [words(tokens) for tokens in view.tokens] == [[0], [2], [4], [5]]
    assert view.text.tolist() == corpus.text_hashes[[1, 1, 3, 3]].tolist()


def test_sums_say_the_same_if_all_their_parts_do():
    """Contexts that begin alike and go on in other words are rivals."""
    corpus = numbered([3, 3, 3])
    one = corpus.sentences[:3]
    corpus.sentences = [*one, one[0], one[1], np.array([2, 60, 3]), *one]
    draw = Draw(*[corpus.offsets[:-1]] * 2, np.arange(3))
    sums = owners(surroundings(0.0, 60)(corpus, draw, rng()))
    assert (sums.wording[:, None] == sums.wording).tolist() == [
        [True, False, True],
        [False, True, False],
        [True, False, True],
    ]


@given(st.integers(3, 40), st.booleans())
@settings(max_examples=40)
def test_no_context_exceeds_its_limit_or_is_empty(limit, special):
    corpus = tiny.corpus([2, 7, 3], special=special)
    view = context(0.5, limit - 2 * special)(corpus, every_sentence(corpus), rng())
    lengths = [len(tokens) for tokens in view.tokens]
    assert max(lengths) <= limit
    assert min(lengths) > 2 * special
    for tokens in view.tokens:
        inner = tokens[1:-1] if special else tokens
        assert not special or (tokens[0], tokens[-1]) == (2, 3)
        assert inner.min() >= 4


def test_ranks_count_those_of_a_group_with_a_smaller_key_or_an_equal_one_before():
    rng = np.random.default_rng(0)
    for size in (0, 1, 40):
        group, key = rng.integers(5, size=size), rng.integers(4, size=size)
        expected = [
            sum((group[j] == group[i]) & ((key[j], j) < (key[i], i)) for j in range(size))
            for i in range(size)
        ]
        assert ranks(group, key).tolist() == expected


def test_what_a_frame_holds_at_either_end_is_no_content():
    rows = [np.array(row) for row in ([1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11, 12])]
    content = content_of(replace(seen(texts_of(*rows)), frame=(1, 2)))
    assert content.ids[content.inner].tolist() == [2, 3, 10]
    assert content.counts.tolist() == [2, 0, 1]
    assert listed(rows_of(content.ids, content.lengths)) == listed(rows)


@pytest.mark.parametrize("special", [False, True])
def test_special_tokens_are_the_frame_of_a_sentence(special):
    corpus = tiny.corpus([2, 3], special=special)
    content = content_of(seen(first, corpus))
    assert content.counts.tolist() == [len(row) - 2 * special for row in corpus.sentences]


def test_no_rows_have_no_content():
    content = content_of(seen(texts_of()))
    assert (len(content.ids), len(content.counts)) == (0, 0)
    assert rows_of(content.ids, content.lengths) == []
