"""Whether masked tokens of unseen texts are told better than by their shares."""

import math

import numpy as np
import pytest
import torch

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError, RecipeError
from sentemb_core.evaluation.masked_language import masked_language, unigram_loss
from sentemb_core.methods.parts.masked_language import MaskFiller
from sentemb_core.methods.parts.stored_head import HeadShape
from tests import tiny
from tests.second_device import THERE, SecondDevice

SHAPE = HeadShape(layers=2, below=1)

WORDS = tiny.VOCABULARY + 1


def texts(count: int = 60, length: int = 10) -> tiny.TinyCorpus:
    """One word again and again: whoever learnt it knows every mask."""
    sentences = [np.full(length, 7, dtype=np.int64)] * count
    return tiny.TinyCorpus(sentences, np.arange(count + 1), np.zeros(count, dtype=bool))


def head_of(encoder: Encoder) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MaskFiller(encoder).state_dict()


def counts(**words: int) -> np.ndarray:
    found = np.zeros(WORDS, dtype=np.int64)
    for word, count in words.items():
        found[int(word[1:])] = count
    return found


def test_the_unigram_loss_is_that_of_the_shares_each_counted_once_more():
    tokens = np.array([4, 4, 5])
    shares = [(3 + 1) / (4 + WORDS), (3 + 1) / (4 + WORDS), (1 + 1) / (4 + WORDS)]
    expected = -sum(map(math.log, shares)) / 3
    assert unigram_loss(counts(w4=3, w5=1), tokens) == pytest.approx(expected)


def test_special_tokens_which_no_mask_asks_for_take_no_share():
    """Two in each sentence are a tenth of a corpus: the bar was too high by as much."""
    encoder = tiny.bert()
    special = encoder.pad_id
    plain, framed = counts(w7=50, w8=50), counts(w7=50, w8=50)
    framed[special] = 900
    told = [
        masked_language(encoder, head_of(encoder), SHAPE, texts(), one) for one in (plain, framed)
    ]
    assert told[0].unigram == told[1].unigram


def test_a_network_that_learnt_nothing_is_about_as_good_as_a_guess():
    encoder = tiny.bert()
    found = masked_language(encoder, head_of(encoder), SHAPE, texts(), counts(w7=10_000))
    assert found.late == pytest.approx(math.log(WORDS), abs=0.6)
    assert found.condensed == pytest.approx(math.log(WORDS), abs=0.6)
    assert found.unigram < 0.1
    assert found.tokens == pytest.approx(0.15 * 10 * 60, rel=0.4)


def test_a_head_that_always_says_the_word_beats_every_share():
    encoder = tiny.bert()
    head = head_of(encoder)
    head["language.bias"] = torch.zeros(WORDS)
    head["language.bias"][7] = 50.0
    found = masked_language(encoder, head, SHAPE, texts(), counts(w7=50, w8=50))
    assert max(found.late, found.condensed) < 0.01 < found.unigram


def test_every_time_the_same_tokens_are_masked():
    encoder = tiny.bert()
    once, again = (
        masked_language(encoder, head_of(encoder), SHAPE, texts(), counts()) for _ in range(2)
    )
    assert once == again


def test_the_head_reads_the_layer_that_it_learnt_on():
    """A head of layer 0 tells otherwise from layer 1; the encoder's last layer is what it is."""
    encoder = tiny.bert()
    told = [
        masked_language(encoder, head_of(encoder), shape, texts(), counts())
        for shape in (HeadShape(2, 0), HeadShape(2, 1))
    ]
    assert told[0].condensed != told[1].condensed
    assert told[0].late == told[1].late


def test_texts_without_a_masked_token_are_refused():
    encoder = tiny.bert()
    with pytest.raises(BadDataError):
        masked_language(encoder, head_of(encoder), SHAPE, texts(1, length=1), counts())


def test_a_head_of_another_encoder_is_refused():
    encoder = tiny.bert()
    head = head_of(encoder) | {"language.bias": torch.zeros(5)}
    with pytest.raises(RecipeError):
        masked_language(encoder, head, SHAPE, texts(), counts())


def test_masks_are_told_where_the_encoder_is():
    head = head_of(tiny.bert())
    here = masked_language(tiny.bert(), head, SHAPE, texts(), counts())
    with SecondDevice():
        there = masked_language(tiny.bert().to(THERE), head, SHAPE, texts(), counts())
    assert here == there
