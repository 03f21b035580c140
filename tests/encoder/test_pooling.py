"""Poolings by hand, on two tokens and one of padding."""

import torch

from sentemb_core.encoder.pooling import first_last_mean, mean_pool

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


def test_first_and_last_layer_weigh_the_same():
    assert first_last_mean(HIDDEN, 3 * HIDDEN, MASK).tolist() == [[4.0, 8.0]]
