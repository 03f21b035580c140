"""Which texts have segments to tell apart."""

import numpy as np
import pytest

from sentemb_core.config.methods import HiCL
from sentemb_core.methods.hicl import several_segments
from tests import tiny

SENTENCE = np.array([2, 5, 6, 7, 3])
"""Three content tokens between two special ones."""


@pytest.mark.parametrize(
    ("longest", "several"),
    [(24, [False, False, True, True]), (10, [False, False, True, True]), (8, [False] * 4)],
)
def test_a_text_has_several_segments_if_one_cannot_hold_what_is_read_of_it(
    longest: int, several: list[bool]
):
    """A segment of 8 holds two of these sentences; the last document is held out."""
    corpus = tiny.corpus([1, 2, 3, 9, 9], held_out=(4,))
    corpus.sentences = [SENTENCE] * len(corpus)
    told = several_segments(HiCL(segment=8, longest=longest), tiny.bert(), corpus)
    assert told.tolist() == several
