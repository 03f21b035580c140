import math

from sentemb_core.report.drawing import HUES, LONGEST_LABEL, MARKERS, drawable


def test_characters_without_a_glyph_become_question_marks():
    assert drawable("R → 世界\nЖ") == "R → ?? Ж"


def test_a_long_label_is_cut_short():
    assert len(drawable("x" * 999)) == LONGEST_LABEL
    assert drawable("x" * LONGEST_LABEL) == "x" * LONGEST_LABEL


def test_hues_and_markers_have_no_common_period():
    assert math.gcd(len(HUES), len(MARKERS)) == 1
