import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.tokenize import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Überstunden, bitte! x_1-2 naïve Москва 서울",
            ["überstunden", "bitte", "x_1", "2", "naïve", "москва", "서울"],
        ),
        (
            "北京2024年、テスト𠮷です。",
            ["北", "京", "2024", "年", "テスト", "𠮷", "で", "す"],
        ),
        (
            "हिन्दी भाषा, cafe\u0301 İl கணினி",
            ["हिन्दी", "भाषा", "cafe\u0301", "i\u0307l", "கணினி"],
        ),
    ],
)
def test_words_of_several_scripts(text: str, expected: list[str]) -> None:
    assert [*words(text)] == expected


@given(st.text())
def test_every_letter_and_digit_is_in_a_word(text: str) -> None:
    letters = re.findall(r"\w", "".join(words(text)))
    assert letters == re.findall(r"\w", text.lower())


@given(st.text(st.characters(codec="ascii")))
def test_ascii_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert [*words(text)] == re.findall(r"\w+", text.lower())
