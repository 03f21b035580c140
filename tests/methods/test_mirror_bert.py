"""Silent attention heads."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DistilBertConfig, DistilBertModel, MPNetConfig, MPNetModel

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.mirror_bert import drophead, mean_with_pads, span_masked, without_heads
from sentemb_core.methods.parts.tokenizer_tools import spelt
from tests import tiny
from tests.methods.drawing import framed, listed, seen, texts_of
from tests.methods.samples import learner, random_rows, read


def test_silent_heads_are_zero_and_the_others_make_up_for_them():
    context = torch.ones(4000, 3, 8)
    left = without_heads(context, heads=4, rate=0.2).view(4000, 3, 4, 2)
    assert (left == left[:, :1, :, :1]).all()  # a head is silent in all of a row, or in nothing
    kept = (left[:, 0, :, 0] != 0).sum(1)
    assert (left[:, 0, :, 0].sum(1)[kept > 0] - 4.0).abs().max() < 1e-6
    assert (left[:, 0, :, 0] == 0).float().mean() == pytest.approx(0.2, abs=0.02)
    assert (left[kept == 0] == 0).all()


def test_at_rate_0_all_heads_speak():
    ids, mask = random_rows(5, 7)
    plain = learner().encoder(ids, mask)
    assert torch.equal(read(drophead(0.0), learner(), ids, mask).pooled, plain)


def test_drophead_makes_two_views_of_an_encoder_without_dropout():
    subject = learner()
    ids, mask = random_rows(*[6] * 20, 5)
    one, same, two = (
        read(drophead(0.5), subject, ids, mask, seed=seed).pooled for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, two)
    assert torch.isfinite(one).all()  # with two heads, many rows lose both


def test_no_hook_is_left_behind():
    subject = learner()
    ids, mask = random_rows(6, 4)
    plain = subject.encoder(ids, mask)
    read(drophead(0.9), subject, ids, mask)
    assert torch.equal(subject.encoder(ids, mask), plain)


SMALL = {"vocab_size": tiny.VOCABULARY}
MPNET = MPNetConfig(
    **SMALL, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16
)
DISTILBERT = DistilBertConfig(**SMALL, dim=16, n_layers=2, n_heads=4, hidden_dim=16)


@pytest.mark.parametrize(("model", "config"), [(MPNetModel, MPNET), (DistilBertModel, DISTILBERT)])
def test_heads_of_other_families_are_found(model, config):
    encoder = Encoder(
        model(config), tiny.tokenizer(), pooling="mean", similarity="cosine", max_length=12
    )
    ids, mask = random_rows(6, 4)
    assert not torch.equal(
        read(drophead(0.5), learner(encoder), ids, mask).pooled, encoder(ids, mask)
    )


def test_states_of_padding_count_up_to_the_encoders_length():
    subject = learner()
    ids, _ = random_rows(5)
    longest = subject.encoder.max_length
    padded, mask = torch.zeros(1, longest, dtype=torch.int64), torch.zeros(1, longest)
    padded[:, :5], mask[:, :5] = ids, 1
    states = subject.encoder.read(padded, mask.long(), layers=True).layers[-1]
    found = read(mean_with_pads(), subject, ids, None).pooled
    torch.testing.assert_close(found, states.sum(1) / longest)
    assert not torch.allclose(found, subject.encoder(ids), atol=1e-2)


def test_a_row_has_the_vector_it_has_alone():
    subject = learner()
    ids, mask = random_rows(6, 4, 18)
    together = read(mean_with_pads(), subject, ids, mask, layers=True)
    assert together.layers[-1].shape[:2] == (3, 18)
    for row, length in enumerate((6, 4, 18)):
        alone = read(mean_with_pads(), subject, ids[row : row + 1, :length], None)
        torch.testing.assert_close(together.pooled[row : row + 1], alone.pooled)
        assert alone.layers == ()


HIDDEN = 79
FIVE_LETTERS = ["seven"] * tiny.VOCABULARY


@given(st.integers(0, 40), st.integers(0, 12), st.integers(0, 99))
def test_a_span_becomes_one_mask_in_texts_of_thirty_characters(length, span, seed):
    row = list(range(4, 4 + length))
    maker = span_masked(framed([row]), FIVE_LETTERS, HIDDEN, span)
    (new,) = listed(seen(maker, seed=seed).tokens)
    assert (new[0], new[-1]) == (2, 3)
    if span == 0 or 5 * length < 30:
        assert new[1:-1] == row
        return
    place = new.index(HIDDEN)
    after = new[place + 1 : -1]
    assert new[1:place] == row[: place - 1]
    assert after == row[len(row) - len(after) :]
    gone = length - (place - 1) - len(after)
    assert span / 5 <= gone <= span // 5 + 2


def test_spans_begin_anywhere_in_a_text():
    text = framed([range(4, 14)] * 8000)
    maker = span_masked(text, FIVE_LETTERS, HIDDEN, 5)
    found = listed(seen(maker).tokens)
    starts = [row.index(HIDDEN) - 1 for row in found]
    share = np.bincount(starts, minlength=10) / len(starts)
    # 45 characters to begin at: 5 in each of the first nine tokens, none in the last one
    np.testing.assert_allclose(share, [1 / 9] * 9 + [0.0], atol=0.012)
    assert share[-1] == 0
    touched = np.array([13 - len(row) for row in found])
    assert {*touched.tolist()} == {1, 2}
    assert (touched == 1).mean() == pytest.approx(1 / 5, abs=0.03)  # one of five is a whole token


@pytest.mark.parametrize("text", ["seven seven seven seven fives", "seven, seven, seven, seventy."])
def test_a_text_of_29_characters_is_not_masked_and_one_of_30_is(text):
    assert len(text) == 29
    vocabulary = ["[CLS]", "[SEP]", "seven", "fives", "##ty", "##s", ",", ".", "[HIDDEN]"]
    pieces = re.sub("(ty|[,.])", r" \1", text).replace("ty", "##ty").split()
    row = [0, *map(vocabulary.index, pieces), 1]
    longer = [*row[:-1], vocabulary.index("##s"), 1]
    maker = span_masked(texts_of(row, longer, special=True), spelt(vocabulary), 8)
    short, masked_one = listed(seen(maker).tokens)
    assert short == row
    assert 8 in masked_one


def test_without_padding_it_is_the_mean():
    subject = learner()
    ids, _ = random_rows(18, 18)
    found = read(mean_with_pads(), subject, ids, None).pooled
    torch.testing.assert_close(found, subject.encoder(ids))


def test_the_mean_goes_through_the_encoders_dense_layers():
    encoder = tiny.bert(dropout=0.0)
    encoder.layers = torch.nn.Sequential(torch.nn.Linear(16, 6))
    assert read(mean_with_pads(), learner(encoder), *random_rows(6, 4)).pooled.shape == (2, 6)
