"""Layouts of other programs are read by their own words; parts that do not belong are named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertModel

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.names import has_encoder
from sentemb_core.encoder.start import encoder_kind
from sentemb_core.errors import BadDataError, MissingEncoderError, SentembError, UsageError
from tests.encoder.published import (
    edit_json,
    peer_vectors,
    published,
    read,
    saved_and_read,
)
from tests.encoder.starting import start

TEXTS = ["agency pays", "a benefit each month", "your claim form by mail"]
LISTS = ("modules.json", "config_sentence_transformers.json")


def in_sub_folder(folder: Path, name: str) -> None:
    """Move the files of the first module into a folder of their own, as early releases did."""
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in LISTS]
    (folder / name).mkdir()
    for path in files:
        path.rename(folder / name / path.name)
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = name
    (folder / "modules.json").write_text(json.dumps(listed))
    edit_json(folder / "config_sentence_transformers.json", creator="others")


@pytest.mark.parametrize(
    ("kind", "name"), [("static", "0_StaticEmbedding"), ("transformer", "0_Transformer")]
)
def test_the_first_module_is_read_from_its_own_folder(kind: str, name: str, tmp_path: Path):
    save_encoder(start(kind, max_length=20), tmp_path / "model", "card")
    before = load_encoder(tmp_path / "model")
    in_sub_folder(tmp_path / "model", name)
    assert has_encoder(str(tmp_path / "model"))
    assert encoder_kind(str(tmp_path / "model")) == kind
    for encoder in (load_encoder(tmp_path / "model"), read(tmp_path / "model")):
        assert encoder.text_length == before.text_length
        found = embed_texts(encoder, TEXTS)
        np.testing.assert_array_equal(found, embed_texts(before, TEXTS))
        np.testing.assert_allclose(found, peer_vectors(tmp_path / "model", TEXTS), atol=1e-6)
    saved_and_read(before, TEXTS, tmp_path / "saved")


def as_model2vec(folder: Path, *, shared_rows: bool) -> None:
    """The table of a static encoder in the file of model2vec."""
    table = load_file(folder / "model.safetensors")["embedding.weight"]
    tensors = {"embeddings": table}
    if shared_rows:
        row_of = torch.arange(len(table)) // 2
        weights = torch.linspace(0.5, 1.5, len(table))
        tensors = {"embeddings": table[: len(table) // 2 + 1].half(), "mapping": row_of}
        tensors |= {"weights": weights}
    save_file(tensors, folder / "model.safetensors")
    settings = {"model_type": "model2vec", "normalize": True, "hidden_dim": 16}
    (folder / "config.json").write_text(json.dumps(settings))
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = "."
    (folder / "modules.json").write_text(json.dumps(listed))


@pytest.mark.parametrize("shared_rows", [False, True])
def test_a_table_of_model2vec_has_the_vectors_of_sentence_transformers(
    shared_rows: bool, tmp_path: Path
):
    save_encoder(start("static"), tmp_path / "model", "card")
    as_model2vec(tmp_path / "model", shared_rows=shared_rows)
    encoder = load_encoder(tmp_path / "model")
    theirs = peer_vectors(tmp_path / "model", TEXTS)
    np.testing.assert_allclose(embed_texts(encoder, TEXTS), theirs, atol=1e-6)
    for name in LISTS:
        (tmp_path / "model" / name).unlink()
    assert encoder_kind(str(tmp_path / "model")) == "static"
    alone = read(tmp_path / "model")
    assert alone.similarity == "cosine"
    np.testing.assert_allclose(embed_texts(alone, TEXTS), theirs, atol=1e-6)
    saved_and_read(alone, TEXTS, tmp_path / "saved")


def test_an_encoder_without_a_token_for_padding_is_saved_with_one(tmp_path: Path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    published(BertModel, BertConfig, tmp_path / "model", intermediate_size=16, **sizes)
    settings = json.loads((tmp_path / "model/tokenizer_config.json").read_text())
    del settings["pad_token"]
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(tmp_path / "model").pad_token is None
    texts = ["w5", "w6 w7 w8", "w5 w9"]
    encoder = read(tmp_path / "model")
    alone = [embed_texts(encoder, [text])[0] for text in texts]
    np.testing.assert_allclose(embed_texts(encoder, texts), alone, atol=1e-6)
    saved_and_read(encoder, texts, tmp_path / "saved")


def adapter_beside(folder: Path) -> None:
    name = "base_model.model.encoder.layer.0.attention.self.query.lora_A.weight"
    save_file({name: torch.zeros(2, 16)}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))


def adapter_alone(folder: Path) -> None:
    adapter_beside(folder)
    for name in ("model.safetensors", "config.json", "modules.json"):
        (folder / name).unlink()


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def without_any_tokenizer(folder: Path) -> None:
    without_tokenizer(folder)
    (folder / "tokenizer_config.json").unlink()


def pointer(name: str) -> Callable[[Path], None]:
    """The file that stands for another one in a clone without git-lfs."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 90868376\n"
    return lambda folder: (folder / name).write_text(text) and None


def quantised(folder: Path) -> None:
    stated = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    edit_json(folder / "config.json", quantization_config=stated)


def in_format(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")

    return edit


def router(folder: Path) -> None:
    """Two encoders, one for queries and one for documents."""
    shutil.copytree(folder, folder / "query_0_Transformer")
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "model.safetensors").unlink()


def more_ids_than_rows(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["storm", "violin"])
    tokenizer.save_pretrained(folder)


def rows_in_model2vec(folder: Path) -> None:
    table = torch.zeros(4, 16)
    save_file({"embeddings": table, "mapping": torch.tensor([9])}, folder / "model.safetensors")
    listed = [{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
    (folder / "modules.json").write_text(json.dumps(listed))


def even_lengths_only(folder: Path) -> None:
    edit_json(folder / "config.json", chunk_size_feed_forward=2)


FOREIGN = [
    (even_lengths_only, UsageError, r"\b3 tokens"),
    (adapter_beside, UsageError, r"adapter_config\.json.*merge_and_unload"),
    (adapter_alone, UsageError, r"adapter_config\.json.*merge_and_unload"),
    (without_tokenizer, MissingEncoderError, r"tokenizer\.json"),
    (without_any_tokenizer, MissingEncoderError, r"tokenizer\.json"),
    (pointer("model.safetensors"), MissingEncoderError, r"model\.safetensors.*git lfs pull"),
    (pointer("tokenizer.json"), MissingEncoderError, r"tokenizer\.json.*git lfs pull"),
    (quantised, UsageError, "bitsandbytes"),
    (in_format("onnx/model.onnx"), MissingEncoderError, "ONNX"),
    (in_format("model.gguf"), MissingEncoderError, "GGUF"),
    (in_format("tf_model.h5"), MissingEncoderError, "TensorFlow"),
    (in_format("README.md"), MissingEncoderError, "none"),
    (router, UsageError, "Router"),
    (more_ids_than_rows, BadDataError, r"\b\d+\b.*\b\d+ rows"),
    (rows_in_model2vec, BadDataError, "E100"),
]


@pytest.mark.parametrize(("edit", "error", "values"), FOREIGN)
def test_parts_that_nobody_reads_are_named(
    edit: Callable[[Path], None], error: type[SentembError], values: str, tmp_path: Path
):
    save_encoder(start("transformer"), tmp_path, "card")
    edit_json(tmp_path / "config_sentence_transformers.json", creator="others")
    edit(tmp_path)
    for opened in (load_encoder, read):
        with pytest.raises(error, match=values) as refused:
            opened(tmp_path)
        assert refused.value.code == error.code
