"""Layers after the pooling: in float32, saved as Dense modules, loaded by others and by us."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sentemb_core.encoder.batching import embed_texts, encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.dense import Normalize
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import MissingEncoderError, UsageError
from sentemb_core.methods.parts.copies import twin
from tests.encoder.published import edit_json, read, saved_and_read
from tests.encoder.starting import start

KINDS = [
    ("static", "mean"),
    ("transformer", "mean"),
    ("transformer", "cls"),
    ("transformer", "last_two_mean"),
]


def layered(name: str, pooling: str = "mean", similarity: str = "cosine") -> Encoder:
    """16 -> 12 -> ReLU -> 10 (without a bias) -> 7."""
    bare = start(name, pooling=pooling, similarity=similarity)
    torch.manual_seed(3)
    last = nn.Linear(12, 10, bias=False), nn.Linear(10, 7)
    return with_layers(bare, nn.Linear(16, 12), nn.ReLU(), *last)


def with_layers(bare: Encoder, *layers: nn.Module) -> Encoder:
    return Encoder(**bare.parts(bare.backbone, nn.Sequential(*layers)))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(("name", "pooling"), KINDS)
def test_sentence_transformers_and_a_loaded_encoder_give_the_same_vectors(
    name, pooling, similarity, sentences, tmp_path
):
    loaded = saved_and_read(layered(name, pooling, similarity), sentences, tmp_path)
    assert embed_texts(loaded, sentences).shape == (len(sentences), 7)
    assert loaded.dim == 7


def test_layers_compute_in_float32_inside_bfloat16(sentences):
    encoder, dtypes = layered("transformer"), []
    for layer in encoder.layers:
        layer.register_forward_hook(lambda _m, _i, states: dtypes.append(states.dtype))
    inner = encoder.backbone.encoder.layer[0].intermediate.dense
    inner.register_forward_hook(lambda _m, _i, states: dtypes.append(states.dtype))
    encode(encoder, encoder.tokenise(sentences[:1]), dtype="bfloat16")
    assert dtypes == [torch.bfloat16, *[torch.float32] * 4]


def test_layers_are_kept_unless_the_pooling_changes(tmp_path):
    save_encoder(layered("transformer"), tmp_path, "card")
    assert read(tmp_path).dim == 7
    other = read(tmp_path, pooling="cls_before_pooler")
    assert (other.layers, other.dim) == (None, 16)


def test_a_copy_has_layers_of_its_own():
    encoder = layered("transformer")
    copied = twin(encoder)
    assert copied.layers is not encoder.layers
    assert all(map(torch.equal, copied.layers.parameters(), encoder.layers.parameters()))


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Linear(16, 4), nn.GELU()],
        [nn.ReLU()],
        [nn.Linear(16, 4), nn.ReLU(), nn.Tanh()],
        [nn.LayerNorm(16), nn.Tanh()],
        [nn.LayerNorm(16, eps=1e-12)],
        [nn.LayerNorm(16, elementwise_affine=False)],
        [nn.Linear(16, 4), nn.Linear(16, 4)],
    ],
)
def test_layers_that_no_module_holds_are_refused(layers):
    with pytest.raises(UsageError, match=re.escape(f"{layers[-1]} does not fit")) as refused:
        with_layers(start("static"), *layers)
    assert refused.value.code == "E001"


@pytest.mark.parametrize(
    "settings",
    [
        {"activation_function": "torch.nn.modules.activation.GELU"},
        {"use_residual": True},
        {"module_input_name": "token_embeddings"},
    ],
)
def test_a_dense_module_that_is_no_layer_is_refused(settings, tmp_path):
    save_encoder(layered("transformer"), tmp_path, "card")
    edit_json(tmp_path / "3_Dense/config.json", **settings)
    with pytest.raises(UsageError, match="Dense"):
        load_encoder(tmp_path)


def test_a_layer_before_the_pooler_is_refused(tmp_path):
    save_encoder(layered("transformer", "cls"), tmp_path, "card")
    listed = json.loads((tmp_path / "modules.json").read_text())
    order = [0, 1, 3, 2, 4, 5, 6]
    assert len(listed) == len(order)
    (tmp_path / "modules.json").write_text(json.dumps([listed[k] for k in order]))
    with pytest.raises(UsageError, match="E001"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_layers_behind_a_normalize_read_directions(similarity, sentences, tmp_path):
    torch.manual_seed(3)
    bare = start("transformer", similarity=similarity)
    encoder = with_layers(
        bare, Normalize(), nn.Linear(16, 12), nn.ReLU(), Normalize(), nn.Linear(12, 7)
    )
    loaded = saved_and_read(encoder, sentences, tmp_path)
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in encoder.layers]
    assert loaded.similarity == similarity
    others = with_layers(
        bare, *(layer for layer in encoder.layers if not isinstance(layer, Normalize))
    )
    assert not np.allclose(
        embed_texts(others, sentences), embed_texts(loaded, sentences), atol=1e-2
    )


def test_a_layer_without_weights_is_an_error_and_not_random_numbers(tmp_path):
    save_encoder(layered("static"), tmp_path, "card")
    file = tmp_path / "1_Dense/model.safetensors"
    assert set(load_file(file)) == {"linear.weight", "linear.bias"}
    file.unlink()
    with pytest.raises(MissingEncoderError, match="1_Dense"):
        load_encoder(tmp_path)


def test_layers_compute_the_vectors_from_the_pooled_vector(sentences):
    encoder = layered("transformer", similarity="dot")
    pooled = embed_texts(start("transformer", similarity="dot"), sentences)
    with torch.inference_mode():
        expected = encoder.layers(torch.from_numpy(pooled)).numpy()
    np.testing.assert_allclose(embed_texts(encoder, sentences), expected, atol=1e-6)
    assert (encoder.hidden_dim, encoder.dim) == (16, 7)
