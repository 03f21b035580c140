"""Slices of a text and their weights."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import RecipeError
from sentemb_core.methods.hicl import segments
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.sncse import prompted
from tests.views.drawn import listed, seen, texts_of


def test_a_text_gives_as_many_segments_as_in_the_paper():
    """Golden: 1 + (|seq| - 1) // L of hicl, L = 32 over |seq| = 1, 31, 32, 33, 64, 65."""
    sizes = [1, 31, 32, 33, 64, 65]
    text = texts_of(*([2, *range(100, 100 + size), 3] for size in sizes))
    view = seen(segments(text, 32, special_tokens=True))
    assert np.bincount(view.owner).tolist() == [1, 1, 1, 2, 2, 3]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_segments_put_together_are_the_text(sizes, length, special, weighted, with_frame):
    ends = ([2], [3]) if special else ([], [])
    rows = [list(range(10, 10 + size)) for size in sizes]
    text = texts_of(*([*ends[0], *row, *ends[1]] for row in rows))
    beside = 2 * special * with_frame
    how = {"special_tokens": special, "weighted": weighted, "beside": beside}
    view = seen(segments(text, length, **how))
    for k, row in enumerate(rows):
        mine = [listed(view.tokens)[place] for place in np.flatnonzero(view.owner == k)]
        assert all(part[:special] == ends[0] for part in mine)
        inner = [part[1:-1] if special else part for part in mine]
        assert [token for part in inner for token in part] == row
        assert all(len(part) == length for part in inner[:-1])
        counted = [len(part) for part in (mine if with_frame else inner)]
        shares = [count / sum(counted) if row else 1.0 for count in counted]
        expected = shares if weighted else [1 / len(inner)] * len(inner)
        np.testing.assert_allclose(view.weight[view.owner == k], expected)
    assert view.document.tolist() == view.group.tolist() == view.text.tolist()
    assert view.document.tolist() == view.owner.tolist()


def test_every_segment_carries_the_prompt():
    text = prompted(texts_of([2, *range(10, 17), 3]), [7, 8], [9], 512, special_tokens=True)
    view = seen(segments(text, 3, special_tokens=True))
    assert listed(view.tokens) == [
        [2, 7, 8, 10, 11, 12, 9, 3],
        [2, 7, 8, 13, 14, 15, 9, 3],
        [2, 7, 8, 16, 9, 3],
    ]
    assert view.frame == (3, 2)


def test_segments_are_of_the_group_and_the_text_that_they_were_cut_from():
    """Not of their own: in batches of clusters, rows of one group are several texts."""
    rows = replace(seen(texts_of([2, *range(10, 15), 3], [2, 20, 3])), group=np.array([7, 4]))
    view = seen(segments(lambda *_: rows, 2, special_tokens=True))
    assert view.owner.tolist() == [0, 0, 0, 1]
    assert view.group.tolist() == [7, 7, 7, 4]
    assert view.text.tolist() == rows.text[[0, 0, 0, 1]].tolist()


def test_a_segment_without_tokens_is_refused():
    with pytest.raises(RecipeError):
        segments(first, 0, special_tokens=True)


@given(st.integers(0, 30), st.integers(6, 40), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_prompt_leaves_the_text_all_the_room_there_is(size, limit, special):
    ends = ([2], [3]) if special else ([], [])
    row = list(range(10, 10 + size))
    text = texts_of([*ends[0], *row, *ends[1]])
    view = seen(prompted(text, [7, 8], [9], limit, special_tokens=special))
    room = limit - 3 - 2 * special
    assert listed(view.tokens) == [[*ends[0], 7, 8, *row[:room], 9, *ends[1]]]
    assert view.frame == (2 + special, 1 + special)


def test_a_prompt_that_leaves_no_room_is_refused():
    with pytest.raises(RecipeError, match="10 prompt"):
        prompted(first, [7] * 6, [8] * 4, 12, special_tokens=True)
