"""Negation by rules of thumb."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.methods.parts.negation import (
    lemma_of_past,
    lemma_of_third_person,
    negated,
)
from tests.examples import at_least

OPPOSITES = (
    ("He is happy.", "He is not happy."),
    ("A man is playing a guitar.", "A man is not playing a guitar."),
    ("We will see, however.", "We will not see, however."),
    ("It's good.", "It's not good."),
    ("He’s going home.", "He’s not going home."),  # noqa: RUF001
    ("he ' s going home .", "he ' s not going home ."),
    ("we ' d go home .", "we ' d not go home ."),
    ("the man ' s car is here .", "the man ' s car is not here ."),
    ("the dogs ' run home .", "the dogs ' do not run home ."),
    ("They have seen it.", "They have not seen it."),
    ("The cat sat on the mat.", "The cat did not sit on the mat."),
    ("He stopped the car.", "He did not stop the car."),
    ("The black dog runs home.", "The black dog does not run home."),
    ("Dogs run fast.", "Dogs do not run fast."),
    ("We validate it.", "We do not validate it."),
    ("He has a car.", "He does not have a car."),
    ("They did their homework.", "They did not do their homework."),
    ("The United States beat Canada.", "The United States did not beat Canada."),
    ("A link is better able to do it.", "A link is not better able to do it."),
    ("They had better success with it.", "They did not have better success with it."),
    ("The bus (CAN) is slow.", "The bus (CAN) is not slow."),
    ("On May 13 he left.", "On May 13 he did not leave."),
    ("Why do you all call it?", "Why do you not all call it?"),
    ("They have also often already seen it.", "They have not also often already seen it."),
    ("They have begun it.", "They have not begun it."),
    ("They have eaten it.", "They have not eaten it."),
    ("He has recently left.", "He has not recently left."),
    ("They have a broken car.", "They do not have a broken car."),
    ("They do apply for it.", "They do not apply for it."),
    ("They do the work.", "They do not do the work."),
    ("We do things other people like.", "We do not do things other people like."),
    ("Birds fly south.", "Birds do not fly south."),
    ("They rely on it.", "They do not rely on it."),
    ("They already left.", "They already did not leave."),
    ("The lost dog runs home.", "The lost dog does not run home."),
    ("Went home early.", "did not go home early."),
    ("The band Left plays well.", "The band Left does not play well."),
    ("Works by Bach.", "Not Works by Bach."),
    ("A press release", "Not A press release"),
    ("What a day!", "Not What a day!"),
    ("A simple corncob in the ear .", "Not A simple corncob in the ear ."),
    ("Not bad at all", "Bad at all"),
    ("You cannot do that.", "You can do that."),
    ("She doesn't know him.", "She does know him."),
    ("They won't come", "They will come"),
    ("Won't they come?", "Will they come?"),
    ("he isn ' t here .", "he is here ."),
    ("He does n't know it .", "He does know it ."),
    ("he does n ' t know it .", "he does know it ."),
    ("They wo n’t come .", "They will come ."),  # noqa: RUF001
    ("He ca n't see it .", "He can see it ."),
    ("It is not what I don't know.", "It is what I don't know."),
    ("I don't know what it is not.", "I do know what it is not."),
    ("He ain't here.", "He is here."),
    (" He is happy.", " He is not happy."),
    (" What a day!", "Not What a day!"),
    ("Nothing knotty is noted", "Something knotty is noted"),
)


def test_sentences_have_these_opposites():
    assert [negated(sentence) for sentence, _ in OPPOSITES] == [text for _, text in OPPOSITES]


def test_commands_questions_modal_verbs_and_negative_words_have_these_opposites():
    card = json.loads((Path(__file__).parents[2] / "golden" / "negations.json").read_text("utf-8"))
    assert {sentence: negated(sentence) for sentence in card} == card
    assert len(card) >= 105


WORDS = [
    "He",
    "the",
    "dog",
    "is",
    "not",
    "runs",
    "ran",
    "has",
    "seen",
    ",",
    "cannot",
    "isn't",
    "42",
]
nonsense = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)


@given(nonsense)
@at_least(200)
def test_a_negation_adds_or_removes_one_negative_word(words):
    sentence = " ".join(words)
    without = sum(word in ("not", "cannot", "isn't") for word in words)
    opposite = negated(sentence).lower()
    found = opposite.split().count("not") + opposite.count("cannot") + opposite.count("isn't")
    assert found == (without - 1 if without else 1)


@given(st.text(max_size=40))
@at_least(200)
def test_any_text_has_an_opposite_other_than_itself(text):
    assert negated(text) != text


PASTS = (
    "went:go loved:love stopped:stop carried:carry created:create treated:treat "
    "handled:handle died:die agreed:agree missed:miss rolled:roll named:name quoted:quote "
    "associated:associate acquired:acquire declared:declare arranged:arrange "
    "organized:organize merged:merge rinsed:rinse hugged:hug travelled:travel crawled:crawl "
    "edited:edit opened:open visited:visit mixed:mix toured:tour starred:star "
)


def test_pasts_have_these_lemmas():
    pairs = [pair.split(":") for pair in PASTS.split()]
    assert [lemma_of_past(past) for past, _ in pairs] == [lemma for _, lemma in pairs]
    assert {lemma_of_past(word) for word in ("hundred", "indeed", "red", "table")} == {None}


def test_lemmas_of_third_persons():
    found = [lemma_of_third_person(word) for word in ("goes", "carries", "says", "glass", "cats")]
    assert found == ["go", "carry", "say", None, None]
