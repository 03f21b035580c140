"""Words of any script, and characters where a script leaves no space."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.tokenize import words


def test_words_are_lowercased_runs_of_letters_digits_and_underscores() -> None:
    assert [*words("Überstunden, bitte! x_1-2 naïve Москва 서울")] == [
        *("überstunden", "bitte", "x_1", "2", "naïve", "москва", "서울")
    ]


def test_han_and_hiragana_are_words_by_the_character_and_katakana_by_the_run() -> None:
    assert [*words("北京2024年、テスト𠮷です。")] == [
        *("北", "京", "2024", "年", "テスト", "𠮷", "で", "す")
    ]


def test_vowel_signs_and_accents_belong_to_their_word() -> None:
    assert [*words("हिन्दी भाषा, cafe\u0301 İl கணினி")] == [
        *("हिन्दी", "भाषा", "cafe\u0301", "i\u0307l", "கணினி")
    ]


@given(st.text())
def test_no_letter_or_digit_is_lost_or_made(text: str) -> None:
    letters = re.findall(r"\w", "".join(words(text)))
    assert letters == re.findall(r"\w", text.lower())


@given(st.text(st.characters(codec="ascii")))
def test_words_of_ascii_are_runs_of_its_letters_and_digits(text: str) -> None:
    assert [*words(text)] == re.findall(r"\w+", text.lower())
