"""Views with some tokens changed: repeated, hidden, deleted."""

import re
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import RecipeError
from sentemb_core.methods.autoencoders import deleted, reconstructed
from sentemb_core.methods.esimcse import repeated
from sentemb_core.methods.hicl import segments
from sentemb_core.methods.mirror_bert import span_masked
from sentemb_core.methods.parts.masking import Masking, masked, with_masked_inputs
from sentemb_core.methods.parts.tokenizer_tools import spelt
from sentemb_core.methods.parts.views import IGNORED, first
from tests import tiny
from tests.views.drawn import listed, seen, texts_of

MASK = 79
MASKING = Masking(rate=0.15, mask_id=MASK, special=(0, 1, 2, 3, MASK), vocabulary=tiny.VOCABULARY)
rows = st.lists(
    st.lists(st.integers(4, 78), min_size=0, max_size=40, unique=True), min_size=1, max_size=5
)


def framed(rows):
    return texts_of(*([2, *row, 3] for row in rows))


def extra(rows, view):
    return [len(new) - len(old) - 2 for old, new in zip(rows, view.tokens, strict=True)]


@given(rows, st.floats(0, 1), st.sampled_from(["code", "paper"]), st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_repetition_only_doubles_content_in_place(rows, rate, rule, seed):
    view = seen(repeated(framed(rows), rate, special_tokens=True, rule=rule), seed=seed)
    for old, new in zip(rows, listed(view.tokens), strict=True):
        assert [token for token, _ in groupby(new)] == [2, *old, 3]
        assert max(len(list(run)) for _, run in groupby(new)) <= 2
        assert (new[:2].count(2), new[-2:].count(3)) == (1, 1)


@pytest.mark.parametrize("rule", ["code", "paper"])
def test_repetition_at_rate_0_changes_nothing(rule):
    rows = [list(range(4, 40))] * 3
    view = seen(repeated(framed(rows), 0.0, special_tokens=True, rule=rule))
    assert listed(view.tokens) == [[2, *row, 3] for row in rows]


def test_no_repetition_makes_a_row_longer_than_an_encoder_has_positions():
    rows = [list(range(4, 34))] * 100 + [list(range(4, 44))]
    view = seen(repeated(framed(rows), 0.3, special_tokens=True, longest=36))
    assert {len(row) - 32 for row in view.tokens[:-1]} == {0, 1, 2, 3, 4}
    assert listed(view.tokens)[-1] == [2, *rows[-1], 3]


@pytest.mark.parametrize(
    ("rule", "length", "most"),
    [("code", 28, 8), ("code", 70, 9), ("paper", 30, 9), ("paper", 4, 2)],
)
def test_repetitions_reach_the_bound_of_their_rule_and_no_further(rule, length, most):
    rows = [list(range(4, 4 + length))] * 500
    view = seen(repeated(framed(rows), 0.3, special_tokens=True, rule=rule))
    assert set(extra(rows, view)) == set(range(most + 1))


def test_repetition_follows_slicing_so_that_slices_agree():
    text = framed([range(4, 70), range(4, 9)])
    plain = segments(text, 30, special_tokens=True)
    twice = seen(repeated(plain, 0.32, special_tokens=True))
    assert twice.owner.tolist() == seen(plain).owner.tolist() == [0, 0, 0, 1]
    assert twice.weight.tolist() == seen(plain).weight.tolist()


@given(rows, st.floats(0.01, 0.99), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_targets_are_what_masking_hid_and_nothing_else(rows, rate, seed):
    masking = Masking(rate=rate, mask_id=MASK, special=(2, 3), vocabulary=tiny.VOCABULARY)
    view = seen(masked(framed(rows), masking), seed=seed)
    for old, new, told in zip(rows, view.tokens, view.targets, strict=True):
        whole = np.array([2, *old, 3])
        chosen = told != IGNORED
        assert (told[chosen] == whole[chosen]).all()
        assert (new[~chosen] == whole[~chosen]).all()
        assert not chosen[[0, -1]].any()


def test_of_the_chosen_tokens_eight_tenths_are_masked_and_a_tenth_stays():
    words = np.tile(np.arange(4, 79), 400)
    view = seen(masked(texts_of(words), MASKING))
    chosen = view.targets[0] != IGNORED
    new = view.tokens[0][chosen]
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    assert (new == MASK).mean() == pytest.approx(0.8 + 0.1 / tiny.VOCABULARY, abs=0.02)
    assert (new == words[chosen]).mean() == pytest.approx(0.1 + 0.1 / tiny.VOCABULARY, abs=0.02)


def test_any_token_at_all_may_stand_where_one_was_chosen():
    few = Masking(rate=0.9, mask_id=9, special=(), vocabulary=12)
    view = seen(masked(texts_of([5] * 4000), few))
    assert set(view.tokens[0].tolist()) == set(range(12))


def test_an_auxiliary_network_reads_the_noise_and_the_encoder_the_text():
    rows = [list(range(4, 60))] * 4
    view = seen(with_masked_inputs(framed(rows), MASKING))
    assert listed(view.tokens) == [[2, *row, 3] for row in rows]
    assert listed(view.inputs) == listed(seen(masked(framed(rows), MASKING)).tokens)
    assert any(MASK in row for row in listed(view.inputs))


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, float("nan")])
def test_a_masking_rate_outside_0_and_1_is_refused(rate):
    with pytest.raises(RecipeError):
        Masking(rate=rate, mask_id=MASK, special=(), vocabulary=9)


@given(rows, st.floats(0, 0.999), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_deletion_keeps_the_order_and_at_least_one_word(rows, rate, seed):
    view = seen(deleted(framed(rows), rate, special_tokens=True), seed=seed)
    for old, new in zip(rows, listed(view.tokens), strict=True):
        assert (new[0], new[-1]) == (2, 3)
        assert new[1:-1] == [token for token in old if token in new[1:-1]]
        assert len(new) > 2 or not old
    assert listed(view.targets) == [[IGNORED, *row, 3] for row in rows]


def test_deletion_takes_six_words_in_ten():
    view = seen(deleted(framed([range(4, 74)] * 300), 0.6, special_tokens=True))
    assert np.mean([len(row) - 2 for row in view.tokens]) == pytest.approx(0.4 * 70, abs=0.5)


def test_deletion_at_rate_0_is_plain_reconstruction():
    corpus = tiny.corpus([3, 2])
    view = seen(deleted(first, 0.0, special_tokens=True), corpus)
    plain = seen(reconstructed(first), corpus)
    assert listed(view.tokens) == listed(plain.tokens) == listed(corpus.sentences)
    told = [[IGNORED, *row[1:]] for row in listed(corpus.sentences)]
    assert listed(view.targets) == listed(plain.targets) == told


def test_the_pieces_of_a_word_go_or_stay_together():
    begins_word = np.ones(80, dtype=bool)
    begins_word[[5, 6]] = False  # 4 5 6 is one word
    text = framed([[4, 5, 6, 7]] * 200)
    view = seen(deleted(text, 0.5, special_tokens=True, begins_word=begins_word))
    assert {tuple(row[1:-1]) for row in listed(view.tokens)} == {(4, 5, 6), (7,), (4, 5, 6, 7)}


def test_deleting_everything_is_refused():
    with pytest.raises(RecipeError, match=r"\b1\.0\b"):
        deleted(first, 1.0, special_tokens=True)


FIVE_LETTERS = ["seven"] * tiny.VOCABULARY


@given(st.integers(0, 40), st.integers(0, 12), st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_a_span_becomes_one_mask_in_texts_of_thirty_characters(length, span, seed):
    row = list(range(4, 4 + length))
    maker = span_masked(framed([row]), FIVE_LETTERS, MASK, special_tokens=True, span=span)
    (new,) = listed(seen(maker, seed=seed).tokens)
    assert (new[0], new[-1]) == (2, 3)
    if span == 0 or 5 * length < 30:
        assert new[1:-1] == row
        return
    place = new.index(MASK)
    after = new[place + 1 : -1]
    assert new[1:place] == row[: place - 1]
    assert after == row[len(row) - len(after) :]
    gone = length - (place - 1) - len(after)
    assert span / 5 <= gone <= span // 5 + 2


def test_spans_begin_anywhere_in_a_text():
    text = framed([range(4, 14)] * 8000)
    maker = span_masked(text, FIVE_LETTERS, MASK, special_tokens=True, span=5)
    found = listed(seen(maker).tokens)
    starts = [row.index(MASK) - 1 for row in found]
    share = np.bincount(starts, minlength=10) / len(starts)
    # 45 characters to begin at: 5 in each of the first nine tokens, none in the last one
    np.testing.assert_allclose(share, [1 / 9] * 9 + [0.0], atol=0.012)
    assert share[-1] == 0
    touched = np.array([13 - len(row) for row in found])
    assert {*touched.tolist()} == {1, 2}
    assert (touched == 1).mean() == pytest.approx(1 / 5, abs=0.03)  # one of five is a whole token


@pytest.mark.parametrize(
    "vocabulary",
    [
        ["the", "##ing", ",", "5", "$"],
        ["▁the", "ing", "▁,", "▁5", "▁$"],
        ["Ġthe", "ing", ",", "Ġ5", "Ġ$"],
    ],
)
def test_a_word_stands_behind_a_space_and_punctuation_behind_its_word(vocabulary):
    assert spelt(vocabulary) == [" the", "ing", ",", " 5", " $"]


@pytest.mark.parametrize(
    "vocabulary",
    [["▁a", "▁the", "▁play", "ing", "##", "###"], ["Ġa", "Ġthe", "Ġplay", "ing", "##", "###"]],
    ids=["SentencePiece", "byte-level BPE"],
)
def test_a_piece_of_number_signs_makes_no_word_piece_of_a_vocabulary(vocabulary):
    assert spelt(vocabulary) == [" a", " the", " play", "ing", "##", "###"]


def test_in_a_vocabulary_without_marks_every_token_stands_behind_a_space():
    assert spelt(["the", "play", ","]) == [" the", " play", ","]


@pytest.mark.parametrize("text", ["seven seven seven seven fives", "seven, seven, seven, seventy."])
def test_a_text_of_29_characters_is_not_masked_and_one_of_30_is(text):
    assert len(text) == 29
    vocabulary = ["[CLS]", "[SEP]", "seven", "fives", "##ty", "##s", ",", ".", "[MASK]"]
    pieces = re.sub("(ty|[,.])", r" \1", text).replace("ty", "##ty").split()
    row = [0, *map(vocabulary.index, pieces), 1]
    longer = [*row[:-1], vocabulary.index("##s"), 1]
    maker = span_masked(texts_of(row, longer), spelt(vocabulary), 8, special_tokens=True)
    short, masked_one = listed(seen(maker).tokens)
    assert short == row
    assert 8 in masked_one


def test_a_negative_span_is_refused():
    with pytest.raises(RecipeError, match="-1"):
        span_masked(first, FIVE_LETTERS, MASK, special_tokens=True, span=-1)
