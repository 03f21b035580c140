"""Masked-language losses of held-out texts against unigram frequencies."""

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
    """One repeated word, which predicts every mask."""
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


def test_unigram_loss_has_add_one_smoothing():
    tokens = np.array([4, 4, 5])
    shares = [(3 + 1) / (4 + WORDS), (3 + 1) / (4 + WORDS), (1 + 1) / (4 + WORDS)]
    expected = -sum(map(math.log, shares)) / 3
    assert unigram_loss(counts(w4=3, w5=1), tokens) == pytest.approx(expected)


def test_special_tokens_have_no_share():
    """Two special tokens a sentence would make the unigram loss a tenth too high."""
    encoder = tiny.bert()
    special = encoder.pad_id
    plain, framed = counts(w7=50, w8=50), counts(w7=50, w8=50)
    framed[special] = 900
    losses = [
        masked_language(encoder, head_of(encoder), SHAPE, texts(), one) for one in (plain, framed)
    ]
    assert losses[0].unigram == losses[1].unigram


def test_untrained_network_guesses():
    encoder = tiny.bert()
    found = masked_language(encoder, head_of(encoder), SHAPE, texts(), counts(w7=10_000))
    assert found.late == pytest.approx(math.log(WORDS), abs=0.6)
    assert found.condensed == pytest.approx(math.log(WORDS), abs=0.6)
    assert found.unigram < 0.1
    assert found.tokens == pytest.approx(0.15 * 10 * 60, rel=0.4)


def test_head_with_the_right_bias_beats_unigram():
    encoder = tiny.bert()
    head = head_of(encoder)
    head["language.bias"] = torch.zeros(WORDS)
    head["language.bias"][7] = 50.0
    found = masked_language(encoder, head, SHAPE, texts(), counts(w7=50, w8=50))
    assert max(found.late, found.condensed) < 0.01 < found.unigram


def test_masks_are_the_same_every_time():
    encoder = tiny.bert()
    once, again = (
        masked_language(encoder, head_of(encoder), SHAPE, texts(), counts()) for _ in range(2)
    )
    assert once == again


def test_head_reads_its_own_layer():
    """Only the head's loss depends on its layer."""
    encoder = tiny.bert()
    losses = [
        masked_language(encoder, head_of(encoder), shape, texts(), counts())
        for shape in (HeadShape(2, 0), HeadShape(2, 1))
    ]
    assert losses[0].condensed != losses[1].condensed
    assert losses[0].late == losses[1].late


def test_no_masked_token_is_refused():
    encoder = tiny.bert()
    with pytest.raises(BadDataError, match=r"\b1 sentence .*0\.15"):
        masked_language(encoder, head_of(encoder), SHAPE, texts(1, length=1), counts())


def test_a_head_of_another_encoder_is_refused():
    encoder = tiny.bert()
    head = head_of(encoder) | {"language.bias": torch.zeros(5)}
    with pytest.raises(RecipeError, match=r"'language\.bias', \(5,\)"):
        masked_language(encoder, head, SHAPE, texts(), counts())


def test_loss_is_the_same_on_another_device():
    head = head_of(tiny.bert())
    here = masked_language(tiny.bert(), head, SHAPE, texts(), counts())
    with SecondDevice():
        there = masked_language(tiny.bert().to(THERE), head, SHAPE, texts(), counts())
    assert here == there
