"""Splitting loses no character and gives no empty sentence."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntok import segmenter
from syntok.tokenizer import Tokenizer

from sentemb_core.corpus.sentences import PART_WORDS, same_text, splitter
from tests.examples import at_least

SPLITTERS = ["syntok", "regex"]
TEXT = st.text(
    st.sampled_from("aB.?!…。\n\r\t \u00a0\"'”)é1」") | st.characters(exclude_categories=["Cs"]),
    max_size=120,
)


@pytest.mark.parametrize("name", SPLITTERS)
def test_sentences_end_at_marks_quotes_and_paragraphs(name: str) -> None:
    text = 'He said "Stop." Then he left.\n \nA title without mark\n\nWrapped\nline! Is it? Yes'
    assert splitter(name)(text) == [
        'He said "Stop."',
        "Then he left.",
        "A title without mark",
        "Wrapped line!",
        "Is it?",
        "Yes",
    ]


def test_only_syntok_knows_abbreviations() -> None:
    text = "Dr. Smith came. He, i.e. the doctor, left."
    assert splitter("syntok")(text) == ["Dr. Smith came.", "He, i.e. the doctor, left."]
    assert splitter("regex")(text) == ["Dr.", "Smith came.", "He, i.e. the doctor, left."]


@pytest.mark.parametrize("name", SPLITTERS)
def test_ideographic_sentences_need_no_space(name: str) -> None:
    sentences = ["你好。", "「再见！」", "好吗？！", "（他说。）", "彼はスミスです。", "好"]  # noqa: RUF001
    assert splitter(name)("".join(sentences)) == sentences


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize(
    "sentences",
    [
        ["هل تعرف ذلك؟", "نعم أعرف.", "حقا؟!", "لا أعلم"],
        ["یہ پہلا جملہ ہے۔", "یہ دوسرا جملہ ہے۔"],  # noqa: RUF001
        ["यह पहला वाक्य है।", "क्या यह ठीक है?", "हाँ।"],
        ["Սա առաջինն է։", "Սա երկրորդն է։"],  # noqa: RUF001
        ["ይህ አንድ ነው።", "ሁለተኛው ነው፧"],
        ["ဒါကပထမဝါကျပါ။", "ဒါကဒုတိယပါ။"],
        ["នេះជាប្រយោគ។", "នេះទៀត។"],
        ["ﾃｽﾄﾃﾞｽ｡", "ﾂｷﾞﾃﾞｽ｡"],
    ],
    ids=["Arabic", "Urdu", "Hindi", "Armenian", "Amharic", "Burmese", "Khmer", "halfwidth"],
)
def test_a_sentence_ends_at_the_marks_of_its_script(name: str, sentences: list[str]) -> None:
    assert splitter(name)(" ".join(sentences)) == sentences


def test_a_german_date_stays_whole() -> None:
    text = "Das Fest beginnt am 3. Mai in Köln. Es endet am 10. Oktober 2024. August kam."
    assert splitter("syntok")(text) == [
        "Das Fest beginnt am 3. Mai in Köln.",
        "Es endet am 10. Oktober 2024.",
        "August kam.",
    ]


@pytest.mark.parametrize("name", SPLITTERS)
@at_least(150)
@given(text=TEXT)
def test_splitting_keeps_every_character_but_white_space(name: str, text: str) -> None:
    sentences = splitter(name)(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == " ".join(sentence.split()) for sentence in sentences)


def test_without_a_splitter_the_text_is_one_sentence() -> None:
    assert splitter("none")(" One.\n\nTwo. ") == ["One. Two."]
    assert splitter("none")(" \n") == []


@given(st.lists(st.sampled_from(["an", "old", "émail", "1.", "?"]), max_size=60))
def test_parts_of_words_hold_each_word_once_and_are_equally_long(words: list[str]):
    parts = [part.split() for part in splitter("words")("  ".join(words))]
    assert [word for part in parts for word in part] == words
    sizes = [len(part) for part in parts]
    assert max(sizes, default=0) <= PART_WORDS
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(parts) == min(len(words), max(2, math.ceil(len(words) / PART_WORDS)))


def test_same_text_ignores_letter_case_and_white_space() -> None:
    assert same_text("  The\nWAY out ") == same_text("the way OUT")
    assert same_text("Straße") == same_text("STRASSE")
    assert same_text("way out") != same_text("wayout")


MARKED = st.text(st.sampled_from("abAZ17 .!?;:,'\"()[]\u2026\u201d\t\u200b\ue000"), max_size=14)
PARTS = ["river. ", "Dr. ", "The ", "It\n", "No. ", "Paris! ", "(a ", "] ", "}) ", "a", ". "]
PROSE = st.lists(st.sampled_from([*"().!?\u200b", *PARTS]), max_size=30).map("".join)


@at_least(300)
@given(MARKED | PROSE)
def test_a_short_cut_gives_the_sentences_of_syntok(text: str) -> None:
    tokens = Tokenizer(replace_not_contraction=False).tokenize(text)
    starts = [sentence[0].offset for sentence in segmenter.segment(tokens)][1:]
    parts = [text[start:end] for start, end in pairwise([0, *starts, len(text)])]
    assert splitter("syntok")(text) == [" ".join(part.split()) for part in parts if part.strip()]


@pytest.mark.parametrize("unit", ["(a. ", "A. ", "3. Mai ", "x;", "'[a] "])
def test_a_long_paragraph_of_marks_is_split_as_no_prose(unit: str) -> None:
    text = unit * 1_000
    assert splitter("syntok")(text) == splitter("regex")(text)
    assert splitter("syntok")("He saw Dr. Smith. " * 200) == ["He saw Dr. Smith."] * 200
