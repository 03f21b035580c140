"""Rows of a view as one array: what is drawn for all tokens at once."""

import numpy as np

from sentemb_core.views.content import ranks


def test_ranks_count_those_of_a_group_with_a_smaller_key_or_an_equal_one_before():
    rng = np.random.default_rng(0)
    for size in (0, 1, 40):
        group, key = rng.integers(5, size=size), rng.integers(4, size=size)
        expected = [
            sum((group[j] == group[i]) & ((key[j], j) < (key[i], i)) for j in range(size))
            for i in range(size)
        ]
        assert ranks(group, key).tolist() == expected
