"""Poolings by hand, on two tokens and one of padding; which layers, from a whole encoder."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.encoder.pooling import last_token, mean_pool, two_layer_mean
from tests.encoder.starting import start

HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]]])
MASK = torch.tensor([[1, 1, 0]])


def test_the_mean_is_over_real_tokens():
    assert mean_pool(HIDDEN, MASK).tolist() == [[2.0, 4.0]]
    assert mean_pool(HIDDEN[:, :2]).tolist() == [[2.0, 4.0]]


def test_the_mean_is_summed_in_float32():
    ones = torch.ones(1, 4096, 1, dtype=torch.bfloat16)
    assert mean_pool(ones).item() == 1.0
    assert mean_pool(ones).dtype == torch.float32


def test_nothing_but_padding_gives_zero():
    assert mean_pool(HIDDEN, torch.zeros_like(MASK)).tolist() == [[0.0, 0.0]]
    assert mean_pool(HIDDEN[:, :0]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("pooling", "layers"),
    [("first_last_mean", (0, 3)), ("last_two_mean", (2, 3)), ("first_block_last_mean", (1, 3))],
)
def test_each_name_means_two_of_the_hidden_states(pooling, layers):
    """Of an encoder of three layers: 0 is the embedding layer, 3 the last."""
    encoder = start("transformer", pooling=pooling, layers=3)
    ids = torch.from_numpy(encoder.tokenise(["pay a claim by mail"])[0])[None]
    states = encoder.read(ids, layers=True).layers
    assert len(states) == 4
    expected = (states[layers[0]] + states[layers[1]]).mean(1) / 2
    torch.testing.assert_close(encoder(ids), expected)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=5),
    st.integers(0, 4),
)
def test_the_last_token_is_found_wherever_the_padding_is(texts, behind):
    """Texts of a number of pads before their tokens, and pads behind up to one width."""
    width = max(pads + tokens for pads, tokens in texts) + behind
    hidden = torch.arange(len(texts) * width * 2.0).reshape(len(texts), width, 2)
    mask = torch.zeros(len(texts), width, dtype=torch.int64)
    for row, (pads, tokens) in enumerate(texts):
        mask[row, pads : pads + tokens] = 1
    found = last_token(hidden, mask)
    for row, (pads, tokens) in enumerate(texts):
        assert found[row].tolist() == hidden[row, pads + tokens - 1].tolist()
    assert last_token(hidden).tolist() == hidden[:, -1].tolist()


def test_two_layers_weigh_the_same():
    assert two_layer_mean(HIDDEN, 3 * HIDDEN, MASK).tolist() == [[4.0, 8.0]]
