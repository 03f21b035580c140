"""Beginnings of texts, inside their frames."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.methods.parts.views import first
from sentemb_core.methods.sncse import prompted, shortened
from tests import tiny
from tests.views.drawn import every_sentence, listed, seen, texts_of


@given(
    st.lists(st.lists(st.integers(10, 12), max_size=9), min_size=1, max_size=6),
    st.integers(1, 9),
    st.booleans(),
)
@settings(max_examples=80)
def test_a_text_ends_behind_its_first_tokens_and_keeps_its_frame(rows, most, special):
    begin, end = ([2], [3]) if special else ([], [])
    text = texts_of(*([*begin, *row, *end] for row in rows))
    view = seen(shortened(text, most, special_tokens=special))
    cut = [[*begin, *row[:most], *end] for row in rows]
    assert listed(view.tokens) == cut
    equal = [[one == other for other in cut] for one in cut]
    np.testing.assert_array_equal(view.text[:, None] == view.text, equal)


def test_the_prompt_of_a_text_is_its_frame():
    text = prompted(texts_of([2, 10, 11, 12, 13, 3]), [7, 8], [9], 32, special_tokens=True)
    view = seen(shortened(text, 2, special_tokens=True))
    assert listed(view.tokens) == [[2, 7, 8, 10, 11, 9, 3]]
    assert view.frame == (3, 2)


def test_sentences_that_differ_behind_the_cut_alone_are_one_text():
    corpus = tiny.corpus([1, 1, 1])
    corpus.sentences = [np.array([2, 10, 11, last, 3]) for last in (12, 13, 12)]
    whole, cut = (seen(shortened(first, most, special_tokens=True), corpus) for most in (3, 2))
    assert len({*whole.text}) == 2
    assert len({*cut.text}) == 1
    assert cut.document.tolist() == [0, 1, 2]
    assert cut.group.tolist() == every_sentence(corpus).group.tolist()
