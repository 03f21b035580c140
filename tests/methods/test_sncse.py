"""Negations of sentences that a prompt leaves little room for, alone and as slices of texts."""

import json
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.config.methods import SNCSE, HiCL
from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.methods.hicl import hicl
from sentemb_core.methods.parts.negation import negated
from sentemb_core.methods.parts.tokenizer_tools import texts_of as decoder_of
from sentemb_core.methods.parts.tokenizer_tools import tokens_of
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.sncse import (
    bidirectional_margin,
    opposite,
    prompted,
    shortened,
    sncse,
)
from tests import tiny
from tests.methods.drawing import every_document, every_sentence, framed, listed, seen, texts_of

VERBS = ("is here", "went home", "has a car", "runs home", "will see it", "isn't here")
SENTENCES = [
    f"{'the old and ' * k}man {ending} with {'many ' * (20 - k)}people."
    for k in range(21)
    for ending in VERBS
]
"""Verbs at every place, in front of the cut, behind it and right at it."""

SPELLED = 'This sentence : of " means did does not go run have.'


@cache
def encoder() -> Encoder:
    """Of random weights, and a vocabulary of whole words."""
    config = EncoderConfig(name="transformer", dim=16, layers=1, vocabulary=400)
    return start_encoder(config, iter([*SENTENCES, SPELLED, SPELLED]))


def corpus_of(*documents: list[str]) -> tiny.TinyCorpus:
    sentences = encoder().tokenise([text for document in documents for text in document])
    offsets = np.cumsum([0, *map(len, documents)])
    return tiny.TinyCorpus(sentences, offsets, np.zeros(len(documents), dtype=bool))


def content_of(view) -> list[list[int]]:
    """The rows without prompts and special tokens."""
    return [row[view.frame[0] : len(row) - view.frame[1]].tolist() for row in view.tokens]


@cache
def views():
    """Of all sentences."""
    makers = sncse(SNCSE(), encoder()).views
    return {name: seen(make, corpus_of(SENTENCES)) for name, make in makers.items()}


def test_no_negation_of_a_sentence_is_its_positive():
    anchor, positive, negation = map(content_of, views().values())
    rows = zip(SENTENCES, positive, negation, strict=True)
    assert not [text for text, one, other in rows if one == other]
    assert anchor == positive
    assert max(len(row) for view in views().values() for row in view.tokens) <= 32


def test_a_negation_has_all_the_words_of_its_sentence():
    framed = [[np.array([2, *row, 3]) for row in content_of(view)] for view in views().values()]
    _, positive, negation = (decoder_of(encoder())(rows) for rows in framed)
    assert [negated(text).lower() for text in positive] == negation


CONTRACTIONS = {
    "He's going home.": "he's not going home.",
    "He’s going home.": "he’s not going home.",  # noqa: RUF001
    "We'd go home.": "we'd not go home.",
    "I'm here.": "i'm not here.",
    "They've seen it.": "they've not seen it.",
    "You'll see.": "you'll not see.",
    "The man's car is here.": "the man's car is not here.",
    "She isn't here.": "she is here.",
}
"""Sentence -> its negation, as a vocabulary of small letters has it."""


def test_contractions_are_negated_on_the_path_that_trains():
    """WordPiece decodes `he ' s`, and the negation is tokens again."""
    config = EncoderConfig(name="transformer", dim=16, layers=1, vocabulary=400)
    encoder = start_encoder(config, iter([*CONTRACTIONS, *CONTRACTIONS, "not", "not"]))
    corpus = tiny.TinyCorpus(
        encoder.tokenise(list(CONTRACTIONS)),
        np.arange(len(CONTRACTIONS) + 1),
        np.zeros(len(CONTRACTIONS), dtype=bool),
    )
    assert "he ' s" in decoder_of(encoder)(corpus.sentences)[0]
    view = seen(opposite(first, encoder), corpus)
    assert listed(view.tokens) == listed(encoder.tokenise(list(CONTRACTIONS.values())))


DOCUMENT = ["The old man runs home with many people", "he is here", "the car went home"] * 6


def test_who_makes_the_method_may_bring_another_negation():
    def denied(sentence: str) -> str:
        return f"not {sentence}"

    anchor, _, negation = (
        content_of(seen(make, corpus_of(SENTENCES)))
        for make in sncse(SNCSE(), encoder(), denied).views.values()
    )
    (added,) = encoder().tokenizer.encode("not", add_special_tokens=False).ids
    assert negation == [[added, *row] for row in anchor]


def test_a_text_is_negated_once_and_then_sliced():
    """Over SNCSE the negated texts are sliced too (hicl, section 3.1)."""
    corpus = corpus_of(DOCUMENT, DOCUMENT[1:])
    draw = every_document(corpus)
    makers = hicl(HiCL(base=SNCSE()), encoder()).views
    found: list[list[str]] = []
    for name in ("positive segments", "negation segments"):
        view = makers[name](corpus, draw, np.random.default_rng(0))
        slices = content_of(view)
        assert np.bincount(view.owner).min() > 3
        mine = [[slices[row] for row in np.flatnonzero(view.owner == d)] for d in range(2)]
        found.append(decoder_of(encoder())([np.array([2, *chain(*rows), 3]) for rows in mine]))
    texts, opposites = found
    assert opposites == list(map(negated, texts))


def test_a_negation_keeps_unknown_words():
    corpus = corpus_of(["the man 日 is here 日", "日 went home"])
    unknown = encoder().tokenizer.token_to_id("[UNK]")
    view = opposite(first, encoder())(corpus, every_sentence(corpus), np.random.default_rng(0))
    assert [row.count(unknown) for row in listed(corpus.sentences)] == [2, 1]
    assert [row.count(unknown) for row in listed(view.tokens)] == [2, 1]


def test_words_become_tokens_as_in_the_corpus_but_uncut():
    short, long = "the man is here", "the man is here " * 20
    one, other = tokens_of(encoder())([short, long])
    assert one.tolist() == encoder().tokenise([short])[0].tolist()
    assert other.tolist() == [2, *one[1:-1].tolist() * 20, 3]


@given(st.integers(0, 30), st.integers(6, 40), st.booleans())
def test_a_prompt_leaves_the_text_all_the_room_there_is(size, limit, special):
    ends = ([2], [3]) if special else ([], [])
    row = list(range(10, 10 + size))
    text = texts_of([*ends[0], *row, *ends[1]], special=special)
    view = seen(prompted(text, [7, 8], [9], limit))
    room = limit - 3 - 2 * special
    assert listed(view.tokens) == [[*ends[0], 7, 8, *row[:room], 9, *ends[1]]]
    assert view.frame == (2 + special, 1 + special)


@given(
    st.lists(st.lists(st.integers(10, 12), max_size=9), min_size=1, max_size=6),
    st.integers(1, 9),
    st.booleans(),
)
def test_a_text_ends_behind_its_first_tokens_and_keeps_its_frame(rows, most, special):
    begin, end = ([2], [3]) if special else ([], [])
    text = texts_of(*([*begin, *row, *end] for row in rows), special=special)
    view = seen(shortened(text, most))
    cut = [[*begin, *row[:most], *end] for row in rows]
    assert listed(view.tokens) == cut
    equal = [[one == other for other in cut] for one in cut]
    np.testing.assert_array_equal(view.text[:, None] == view.text, equal)


def test_the_prompt_of_a_text_is_its_frame():
    text = prompted(framed([[10, 11, 12, 13]]), [7, 8], [9], 32)
    view = seen(shortened(text, 2))
    assert listed(view.tokens) == [[2, 7, 8, 10, 11, 9, 3]]
    assert view.frame == (3, 2)


def test_sentences_that_differ_behind_the_cut_alone_are_one_text():
    corpus = tiny.corpus([1, 1, 1])
    corpus.sentences = [np.array([2, 10, 11, last, 3]) for last in (12, 13, 12)]
    whole, cut = (seen(shortened(first, most), corpus) for most in (3, 2))
    assert len({*whole.text}) == 2
    assert len({*cut.text}) == 1
    assert cut.document.tolist() == [0, 1, 2]
    assert cut.group.tolist() == every_sentence(corpus).group.tolist()


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "losses.json").read_text())


@pytest.mark.parametrize(("positive", "negated", "loss"), GOLDEN["bidirectional_margin"]["cases"])
def test_a_negation_lies_between_the_margins(positive, negated, loss):
    near, far = (torch.tensor([x], dtype=torch.float64) for x in (positive, negated))
    value = bidirectional_margin(near, far, low=0.1, high=0.3)
    assert value.item() == pytest.approx(loss, abs=1e-12)


@given(st.integers(0, 2**31))
@settings(max_examples=30)
def test_both_margins_equal_a_slow_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    ours = (2 * torch.rand(2, 6, generator=generator, dtype=torch.float64) - 1).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    fast = bidirectional_margin(*ours, low=0.1, high=0.3)
    slow = theirs.new_zeros(())
    for near, far in theirs.T:
        gap = near - far
        if gap < 0.1:
            slow = slow + (0.1 - gap) / 6
        elif gap > 0.3:
            slow = slow + (gap - 0.3) / 6
    torch.testing.assert_close(fast, slow)
    (fast + 0 * ours.sum()).backward()
    (slow + 0 * theirs.sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
