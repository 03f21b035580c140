"""The encoder half of a T5 is an encoder; a transformer that generates text is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoModel,
    AutoModelForTextEncoding,
    BartConfig,
    BartModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    MT5Config,
    MT5EncoderModel,
    PegasusConfig,
    PegasusModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    T5Model,
    UMT5Config,
    UMT5EncoderModel,
    UMT5Model,
    XLNetConfig,
    XLNetModel,
)

from sentemb_core.encoder.backbones import refuse_generators, require_pooling
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder, tokenizer_settings
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.start import encoder_kind
from sentemb_core.errors import RecipeError, UsageError
from sentemb_core.training.loop import train
from tests.encoder.published import published, read, saved_and_read, t5
from tests.methods.recipes import PROMPT, SLICES, SPANS, config_of, made, sampler_of

TEXTS = ["w5 w6 w7", "w8", "w9 w10 w11 w12 w13 w14", "nobody knows w5", "w5 " * 40]
TWO_LAYERS = ["first_last_mean", "last_two_mean", "first_block_last_mean"]
HALVES = [
    *((T5EncoderModel, T5Config, pooling) for pooling in ["mean", *TWO_LAYERS]),
    *((T5Model, T5Config, pooling) for pooling in ["mean", *TWO_LAYERS]),
    (T5ForConditionalGeneration, T5Config, "mean"),
    (MT5EncoderModel, MT5Config, "mean"),
    (UMT5EncoderModel, UMT5Config, "mean"),
    (UMT5Model, UMT5Config, "mean"),
]


def started(folder: Path, **settings: object) -> Encoder:
    return read(folder, max_length=18, **settings)


@pytest.mark.parametrize(("architecture", "shape", "pooling"), HALVES)
def test_a_t5_gives_the_vectors_of_sentence_transformers(architecture, shape, pooling, tmp_path):
    base = t5(tmp_path / "base", architecture, shape)
    assert encoder_kind(str(base)) == "transformer"
    saved_and_read(started(base, pooling=pooling), TEXTS, tmp_path)


def test_a_folder_in_the_form_of_sentence_t5_is_read_whole(tmp_path):
    half = Transformer(str(t5(tmp_path / "base")), max_seq_length=18)
    wider = Dense(16, 24, bias=False, activation_function=torch.nn.Identity())
    peer = SentenceTransformer(modules=[half, Pooling(16), wider, Normalize()], device="cpu")
    peer.save_pretrained(str(tmp_path / "peer"))
    encoder = load_encoder(tmp_path / "peer")
    theirs = peer.encode(TEXTS, show_progress_bar=False)
    assert encoder.dim == 24
    np.testing.assert_allclose(embed_texts(encoder, TEXTS), theirs, atol=1e-5)


def test_transformers_loads_the_saved_half_completely(tmp_path):
    encoder = started(t5(tmp_path / "base", T5Model))
    save_encoder(encoder, tmp_path / "saved", "card")
    weights = load_file(tmp_path / "saved/model.safetensors")
    assert not [name for name in weights if name.startswith("decoder")]
    half, loading = AutoModelForTextEncoding.from_pretrained(
        tmp_path / "saved", output_loading_info=True
    )
    assert not any(loading.values())
    whole = AutoModel.from_pretrained(tmp_path / "saved")  # its decoder is drawn by chance
    for name, weight in encoder.backbone.state_dict().items():
        assert torch.equal(half.state_dict()[name], weight)
        assert torch.equal(whole.state_dict()[name], weight)


@pytest.mark.parametrize("pooling", ["cls", "cls_before_pooler"])
def test_a_t5_has_no_token_that_stands_for_the_sentence(pooling, tmp_path):
    with pytest.raises(UsageError, match=rf"E001 .*{pooling!r}.*T5EncoderModel"):
        started(t5(tmp_path), pooling=pooling)


def test_xlnet_has_no_first_token_for_the_sentence():
    shape = XLNetConfig(vocab_size=9, d_model=8, n_layer=1, n_head=2, d_inner=8)
    with pytest.raises(UsageError, match=r"E001 .*'cls_before_pooler'.*XLNetModel"):
        require_pooling(XLNetModel(shape), "cls_before_pooler")
    require_pooling(XLNetModel(shape), "mean")


def test_no_token_types_are_passed_where_the_encoder_passes_none():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"a": 0}, "a")),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token="a",
    )
    assert tokenizer_settings(tokenizer)["model_input_names"] == ["input_ids", "attention_mask"]


@pytest.mark.parametrize("method", ["simcse", "infocse_idc", "conpono", "fine_tune", "bce", "ct"])
def test_a_trained_t5_is_saved(method, tmp_path):
    before = started(t5(tmp_path / "base"))
    recipe, learner = made(method, started(tmp_path / "base"))
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
    assert not np.allclose(embed_texts(trained, TEXTS), embed_texts(before, TEXTS))


def test_a_t5_has_one_table_of_token_vectors_in_its_state(tmp_path):
    encoder, other = started(t5(tmp_path / "base")), started(tmp_path / "base")
    state = {name: weight + 1 for name, weight in encoder.state_dict().items()}
    assert "backbone.encoder.embed_tokens.weight" not in state
    other.load_state_dict(state)
    table = other.backbone.get_input_embeddings().weight
    assert torch.equal(table, state["backbone.shared.weight"])
    assert torch.equal(other.backbone.encoder.embed_tokens.weight, table)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("consert", {}),
        ("consert", {"first": ("adversarial",), "second": ()}),
        ("sg_opt", {}),
        ("condenser", {}),
        ("infocse_aux", {"random_head": True}),
        ("esimcse", {}),
        ("mirror_bert", {"drophead": 0.2}),
        ("sncse", PROMPT),
        ("hicl", SLICES),
        ("declutr", SPANS),
        ("clm_autoencoder", {}),
        ("ict", {}),
        ("cpc", {}),
    ],
)
def test_a_method_that_needs_a_bert_refuses_a_t5(method, settings, tmp_path):
    with pytest.raises(RecipeError, match="T5EncoderModel"):
        made(method, started(t5(tmp_path)), **settings)


WIDTH = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
LLAMA = {"hidden_size": 16, "intermediate_size": 16}
LLAMA |= {"num_hidden_layers": 1, "num_attention_heads": 2}
DECODERS = [
    (BartModel, BartConfig, WIDTH | LAYERS | HEADS, "'bart'"),
    (PegasusModel, PegasusConfig, WIDTH | LAYERS | HEADS, "'pegasus'"),
    (GPT2Model, GPT2Config, {"n_embd": 16, "n_layer": 1, "n_head": 2}, "'gpt2'"),
    (LlamaModel, LlamaConfig, LLAMA, "'llama'"),
]


@pytest.mark.parametrize(("architecture", "shape", "sizes", "values"), DECODERS)
def test_a_transformer_that_generates_text_is_refused(architecture, shape, sizes, values, tmp_path):
    folder = published(architecture, shape, tmp_path, **sizes)
    for refuse in (encoder_kind, lambda name: started(Path(name))):
        with pytest.raises(UsageError, match=f"E001 .*{values}"):
            refuse(str(folder))


@pytest.mark.parametrize(
    "config",
    [
        "{}",
        '{"model_type": "bert"}',
        '{"model_type": "xlnet"}',
        '{"model_type": "of tomorrow"}',
        '{"model_type": "gemma3_text", "use_bidirectional_attention": true}',
        '{"model_type": "llama", "is_causal": false}',
    ],
)
def test_a_bidirectional_or_unknown_transformer_is_accepted(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    refuse_generators(tmp_path)


def test_a_t5_without_modules_gives_the_vectors_of_sentence_transformers(tmp_path):
    base = t5(tmp_path)
    peer = SentenceTransformer(str(base), device="cpu")
    peer.max_seq_length = 18
    theirs = peer.encode(TEXTS, show_progress_bar=False, normalize_embeddings=True)
    np.testing.assert_allclose(embed_texts(started(base), TEXTS), theirs, atol=1e-5)
