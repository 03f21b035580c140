"""Encoder families of others: read whole, saved, and loaded by others with equal vectors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    LayerNorm,
    Normalize,
    Pooling,
    Transformer,
)
from torch import nn
from transformers import AutoConfig, AutoModel

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.packing import packs, padded
from sentemb_core.errors import BadDataError, RecipeError, UsageError
from sentemb_core.training.loop import train
from tests import tiny
from tests.encoder.published import read, saved_and_read, wrapped_tokenizer
from tests.methods.recipes import config_of, made, sampler_of

TEXTS = ["w5 w6 w7", "w8", "w9 w10 w11 w12 w13 w14", "nobody knows w5", "w5 w8 " * 30, "w9 w9"]

COMMON = {
    "vocab_size": tiny.VOCABULARY + 1,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
DECODER = COMMON | {"num_key_value_heads": 2, "head_dim": 4, "eos_token_id": 3}
GEMMA = DECODER | {"use_bidirectional_attention": True, "sliding_window": 5}
GEMMA |= {"layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 4}
FAMILIES = {
    "modernbert": COMMON | {"sep_token_id": 3, "cls_token_id": 2, "local_attention": 6},
    "mpnet": COMMON,
    "xlm-roberta": COMMON,
    "distilbert": {
        "vocab_size": tiny.VOCABULARY + 1,
        "dim": 16,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 32,
        "max_position_embeddings": 64,
    },
    "albert": COMMON | {"embedding_size": 8},
    "deberta": COMMON | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": COMMON
    | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
    | {"position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    "gemma3_text": GEMMA,
    "qwen3": DECODER,
    "qwen2": DECODER,
    "llama": DECODER,
    "mistral": DECODER,
}
DECODERS = ("qwen3", "qwen2", "llama", "mistral")


def base(family: str, folder: Path, **options: object) -> Path:
    """A transformer of random weights, large enough that each token sees the others."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModel.from_config(AutoConfig.for_model(family, **FAMILIES[family]))
        for weight in model.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder, **options)
    wrapped_tokenizer(ends_only=family in DECODERS).save_pretrained(folder)
    return folder


def peer_of(folder: Path, *behind: nn.Module, pooling: str = "mean") -> SentenceTransformer:
    root = Transformer(str(folder), max_seq_length=40)
    return SentenceTransformer(modules=[root, Pooling(16, pooling), *behind], device="cpu")


def require_parity(peer: SentenceTransformer, folder: Path) -> Encoder:
    """Read what sentence-transformers saved, save it, and compare all vectors."""
    peer.save_pretrained(str(folder / "peer"))
    encoder = read(folder / "peer", max_length=40)
    theirs = peer.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(embed_texts(encoder, TEXTS), theirs, atol=1e-5)
    return saved_and_read(encoder, TEXTS, folder / "saved")


CASES = [
    (family, pooling)
    for family in FAMILIES
    for pooling in ("mean", "cls", "lasttoken")
    if not (family in DECODERS and pooling == "cls")
]


@pytest.mark.parametrize(("family", "pooling"), CASES)
def test_a_family_has_the_vectors_of_sentence_transformers(family, pooling, tmp_path):
    peer = peer_of(base(family, tmp_path / "base"), Normalize(), pooling=pooling)
    encoder = require_parity(peer, tmp_path)
    ids, mask = padded(encoder.tokenise(TEXTS), encoder.pad_id)
    with torch.inference_mode():
        rows = encoder.vectors(encoder(ids, mask)).numpy()
    np.testing.assert_allclose(rows, embed_texts(encoder, TEXTS), atol=1e-5)


def test_padding_at_either_side_changes_no_last_token(tmp_path):
    encoder = require_parity(
        peer_of(base("qwen3", tmp_path), Normalize(), pooling="lasttoken"), tmp_path
    )
    sequences = encoder.tokenise(TEXTS)
    ids, mask = padded(sequences, encoder.pad_id)
    shift = [ids.shape[1] - len(sequence) for sequence in sequences]
    left = [torch.stack(list(map(torch.roll, rows, shift))) for rows in (ids, mask)]
    with torch.inference_mode():
        torch.testing.assert_close(encoder(*left), encoder(ids, mask), atol=1e-5, rtol=0)


def dense(width: int, out: int, activation: nn.Module, *, bias: bool = True) -> Dense:
    return Dense(width, out, bias=bias, activation_function=activation)


def norm(width: int) -> LayerNorm:
    layer = LayerNorm(width)
    nn.init.normal_(layer.norm.weight, mean=1)
    nn.init.normal_(layer.norm.bias)
    return layer


LAYERS = [
    [dense(16, 24, nn.Identity(), bias=False), dense(24, 16, nn.Identity(), bias=False)],
    [dense(16, 12, nn.Tanh())],
    [dense(16, 12, nn.ReLU()), norm(12), dense(12, 7, nn.Tanh(), bias=False)],
    [norm(16)],
]


SHAPES = [("gemma3_text", "mean", [Normalize()]), ("xlm-roberta", "cls", [])]


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(("family", "pooling", "end"), SHAPES)
def test_modules_behind_the_pooling_are_layers(family, pooling, end, layers, tmp_path):
    peer = peer_of(base(family, tmp_path / "base"), *layers, *end, pooling=pooling)
    peer.similarity_fn_name = "cosine" if end else "dot"
    encoder = require_parity(peer, tmp_path)
    assert (encoder.dim, encoder.similarity) == (
        peer.get_embedding_dimension(),
        peer.similarity_fn_name,
    )


@pytest.mark.parametrize("family", ["xlm-roberta", "qwen3"])
def test_weights_in_several_files_are_read_whole(family, tmp_path):
    folder = base(family, tmp_path / "base", max_shard_size="10KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    require_parity(peer_of(folder, Normalize()), tmp_path)


def test_a_folder_that_lacks_one_of_its_files_of_weights_is_refused(tmp_path):
    folder = base("qwen3", tmp_path / "base", max_shard_size="10KB")
    peer_of(folder, Normalize()).save_pretrained(str(tmp_path / "peer"))
    for file in folder.glob("model*"):
        shutil.copy(file, tmp_path / "peer")
    (tmp_path / "peer/model.safetensors").unlink()
    read(tmp_path / "peer")
    next((tmp_path / "peer").glob("*.safetensors")).unlink()
    with pytest.raises(BadDataError, match="E100"):
        read(tmp_path / "peer")


@pytest.mark.parametrize("kind", ["CNN", "Router", "Dropout", "WeightedLayerPooling"])
def test_a_module_that_an_encoder_does_not_have_is_refused(kind, tmp_path):
    peer_of(base("xlm-roberta", tmp_path / "base")).save_pretrained(str(tmp_path / "peer"))
    listed = json.loads((tmp_path / "peer/modules.json").read_text())
    listed.append({"path": f"2_{kind}", "type": f"sentence_transformers.models.{kind}"})
    (tmp_path / "peer" / f"2_{kind}").mkdir()
    (tmp_path / "peer/modules.json").write_text(json.dumps(listed))
    with pytest.raises(UsageError, match=kind) as refused:
        read(tmp_path / "peer")
    assert refused.value.code == "E001"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["xlm-roberta", "gemma3_text"])
def test_half_precision_weights_are_computed_in_float32(family, dtype, tmp_path):
    whole = peer_of(base(family, tmp_path / "base"), dense(16, 12, nn.Tanh()), Normalize())
    whole.save_pretrained(str(tmp_path / "whole"))
    for file in (tmp_path / "whole").rglob("model.safetensors"):
        half = {name: weight.to(dtype) for name, weight in load_file(file).items()}
        save_file(half, file, metadata={"format": "pt"})
    encoder = read(tmp_path / "whole", max_length=40)
    assert {weight.dtype for weight in encoder.state_dict().values()} == {torch.float32}
    options = {"model_kwargs": {"torch_dtype": torch.float32}}
    peer = SentenceTransformer(str(tmp_path / "whole"), device="cpu", **options)
    theirs = peer.float().encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(embed_texts(encoder, TEXTS), theirs, atol=1e-5)
    saved_and_read(encoder, TEXTS, tmp_path / "saved")


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"distilbert", "xlm-roberta"}))
def test_a_family_that_packing_does_not_know_reads_padded_rows(family, tmp_path):
    assert not packs(AutoModel.from_pretrained(base(family, tmp_path)))


def qwen3(folder: Path) -> Path:
    """A folder in the form of Qwen3-Embedding."""
    peer = peer_of(base("qwen3", folder / "base"), Normalize(), pooling="lasttoken")
    peer.save_pretrained(str(folder / "qwen3"))
    return folder / "qwen3"


@pytest.mark.parametrize("method", ["infocse_idc", "conpono", "fine_tune"])
def test_a_trained_decoder_is_saved(method, tmp_path):
    folder = qwen3(tmp_path)
    recipe, learner = made(method, read(folder, max_length=18))
    config, losses = config_of(method, {}, steps=2, checkpoint_every=1), []
    train(
        learner,
        recipe,
        sampler_of(config, recipe),
        config,
        tmp_path / "work",
        on_step=lambda _, metrics: losses.append(metrics["loss"]),
    )
    assert len(losses) == 2
    assert np.isfinite(losses).all()
    trained = saved_and_read(learner.encoder, TEXTS, tmp_path / "saved")
    before = read(folder, max_length=18)
    assert not np.allclose(embed_texts(trained, TEXTS), embed_texts(before, TEXTS))


@pytest.mark.parametrize("method", ["condenser", "simcse", "hicl", "declutr", "mlm_autoencoder"])
def test_a_method_that_needs_a_bert_refuses_a_decoder(method, tmp_path):
    with pytest.raises(RecipeError):
        made(method, read(qwen3(tmp_path), max_length=18))


@pytest.mark.parametrize("pooling", ["cls", "cls_before_pooler"])
def test_the_first_token_of_a_decoder_stands_for_no_sentence(pooling, tmp_path):
    with pytest.raises(UsageError, match=rf"E001 .*{pooling!r}.*Qwen3Model"):
        read(qwen3(tmp_path), pooling=pooling)
