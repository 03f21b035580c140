"""Words of any script, and characters where a script leaves no space."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.words import words


def test_words_are_lowercased_runs_of_letters_digits_and_underscores() -> None:
    assert [*words("Überstunden, bitte! x_1-2 naïve Москва 서울")] == [
        *("überstunden", "bitte", "x_1", "2", "naïve", "москва", "서울")
    ]


def test_han_and_hiragana_are_words_by_the_character_and_katakana_by_the_run() -> None:
    assert [*words("北京2024年、テスト𠮷です。")] == [
        *("北", "京", "2024", "年", "テスト", "𠮷", "で", "す")
    ]


@given(st.text())
def test_no_letter_or_digit_is_lost_or_made(text: str) -> None:
    assert "".join(words(text)) == "".join(re.findall(r"\w", text.lower()))
