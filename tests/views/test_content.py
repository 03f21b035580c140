"""Rows of a view as one array: what is drawn for all tokens at once."""

from dataclasses import replace

import numpy as np

from sentemb_core.methods.parts.views import content_of, frame_of, ranks, rows_of
from tests.views.drawn import listed, seen, texts_of


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
    content = content_of(rows, (1, 2))
    assert content.ids[content.inner].tolist() == [2, 3, 10]
    assert content.counts.tolist() == [2, 0, 1]
    assert listed(rows_of(content.ids, content.lengths)) == listed(rows)


def test_no_rows_have_no_content():
    content = content_of([])
    assert (len(content.ids), len(content.counts)) == (0, 0)
    assert rows_of(content.ids, content.lengths) == []


def test_a_prompt_at_one_end_alone_is_the_frame_all_the_same():
    view = seen(texts_of([1, 2, 3]))
    assert frame_of(view, special_tokens=True) == (1, 1)
    assert frame_of(replace(view, frame=(2, 0)), special_tokens=True) == (2, 0)
