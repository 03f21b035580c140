"""Ordered copies of weights: equal vectors, and layers as they were afterwards."""

import numpy as np
import pytest
import torch
from torch import nn

from sentemb_core.encoder import packed_weights as module
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.packed_weights import packed_weights
from sentemb_core.types import Precision
from tests.encoder.starting import start


def linear_layers(encoder: Encoder) -> list[nn.Linear]:
    return [layer for layer in encoder.backbone.modules() if isinstance(layer, nn.Linear)]


def is_packed(encoder: Encoder) -> bool:
    return any("forward" in vars(layer) for layer in linear_layers(encoder))


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("bfloat16", 2e-2)])
def test_vectors_are_equal_to_rounding(monkeypatch, dtype: Precision, atol: float):
    encoder = start("transformer")
    rng = np.random.default_rng(0)
    rows = [rng.integers(5, 60, rng.integers(3, 20)) for _ in range(200)]
    plain = encode(encoder, rows, dtype=dtype)
    monkeypatch.setattr(module, "FEWEST_TOKENS", 1)
    np.testing.assert_allclose(encode(encoder, rows, dtype=dtype), plain, atol=atol)
    assert not is_packed(encoder)


def test_layers_are_packed_inside_alone():
    encoder = start("transformer")
    with packed_weights(encoder, "float32", module.FEWEST_TOKENS - 1):
        assert not is_packed(encoder)
    with packed_weights(encoder, "float32", module.FEWEST_TOKENS):
        assert is_packed(encoder)
        with packed_weights(encoder, "float32", module.FEWEST_TOKENS):
            assert is_packed(encoder)
        assert is_packed(encoder), "the outer context packed them"
    assert not is_packed(encoder)


def test_layers_are_as_they_were_after_an_error():
    encoder = start("transformer")

    def fail() -> None:
        with packed_weights(encoder, "float32", module.FEWEST_TOKENS):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not is_packed(encoder)


def test_a_large_encoder_is_not_copied(monkeypatch):
    encoder = start("transformer")
    monkeypatch.setattr(module, "MOST_WEIGHTS", 10)
    with packed_weights(encoder, "float32", 1 << 20):
        assert not is_packed(encoder)


def test_a_layer_without_a_bias_is_packed():
    layer = nn.Linear(8, 4, bias=False)
    with torch.inference_mode():
        rows = torch.randn(3, 8)
        found = module._Packed(layer, "float32")(rows)
        torch.testing.assert_close(found, rows @ layer.weight.T)
