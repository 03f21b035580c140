"""A model folder reads no file outside itself, whatever its settings and links say."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.safety import OUTSIDE, refuse_outside
from sentemb_core.encoder.start import encoder_kind
from sentemb_core.errors import UnsafeModelError
from sentemb_core.retriever.folder import RETRIEVER, TABLE, TOKEN_MAP, load_retriever
from sentemb_core.retriever.folder import save_retriever as save
from tests.encoder.published import edit_json, read
from tests.encoder.starting import start
from tests.retriever import made

TEXTS = ["agency pays", "a benefit each month"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret" / "words.txt"
    path.parent.mkdir()
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\npassword\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_encoder(start("transformer"), tmp_path / "model", "card")
    return tmp_path / "model"


def refused(folder: Path, *values: str) -> None:
    """Every way to a folder's encoder refuses it, with these values."""
    for opened in (load_encoder, read, lambda path: encoder_kind(str(path)), load_retriever):
        with pytest.raises(UnsafeModelError) as raised:
            opened(folder)
        assert all(value in str(raised.value) for value in values), raised.value


@pytest.mark.parametrize("path", ["{secret}", "../secret/words.txt", "..", "x/../../secret", "~/a"])
@pytest.mark.parametrize(
    "place",
    [
        ("tokenizer_config.json", "vocab"),
        ("tokenizer_config.json", "vocab_file"),
        ("tokenizer_config.json", "merges_file"),
        ("tokenizer_config.json", "fast_tokenizer_files"),
        ("config.json", "transformers_weights"),
        ("adapter_config.json", "base_model_name_or_path"),
        ("model.safetensors.index.json", "weight_map"),
        ("1_Pooling/config.json", "path"),
        ("modules.json", "path"),
    ],
    ids="/".join,
)
def test_a_path_out_of_the_folder_is_refused(folder: Path, secret: Path, place, path: str):
    (name, key), path = place, path.format(secret=secret)
    content = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    if name == "modules.json":
        content[1]["path"] = path
    else:
        nested = {"fast_tokenizer_files": [path], "weight_map": {key: path}}
        content[key] = nested.get(key, path)
    (folder / name).write_text(json.dumps(content))
    refused(folder, name, key, path)


@pytest.mark.parametrize("key", ["vocab", "vocab_file", "tokenizer_file", "merges_file"])
@pytest.mark.parametrize("own", ["tokenizer.json", "vocab.txt"])
def test_a_tokenizer_is_read_from_its_folder_alone(
    folder: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, key: str, own: str
):
    """A relative path would be opened where the process is."""
    monkeypatch.chdir(secret.parent)
    if own == "vocab.txt":
        words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        (folder / own).write_text("".join(f"{word}\n" for word in words))
        (folder / "tokenizer.json").unlink()
        edit_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    before = load_encoder(folder).tokenizer.get_vocab()
    edit_json(folder / "tokenizer_config.json", **{key: secret.name})
    assert load_encoder(folder).tokenizer.get_vocab() == before
    assert "password" not in before


def test_arguments_of_a_tokenizer_are_refused(folder: Path):
    edit_json(folder / "tokenizer_config.json", init_inputs=["words.txt"])
    refused(folder, "init_inputs", "words.txt")


@pytest.mark.parametrize("outside", [True, False])
def test_a_path_in_place_of_a_vocabulary_is_refused(
    folder: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, outside: bool
):
    """BertTokenizer of transformers opens it."""
    monkeypatch.chdir(secret.parent)
    path = str(secret) if outside else secret.name
    edit_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": path}
    edit_json(folder / "tokenizer.json", model=model)
    refused(folder, "tokenizer.json", "model.vocab", path)


def with_spare_rows(folder: Path, count: int) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    weights[name] = torch.nn.functional.pad(weights[name], (0, 0, 0, count))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    edit_json(folder / "config.json", vocab_size=len(weights[name]))


def test_notes_and_texts_may_look_like_paths(folder: Path):
    """As published models have them: where they were trained, tokens, prompts."""
    before = embed_texts(load_encoder(folder), TEXTS)
    with_spare_rows(folder, 2)
    edit_json(folder / "config.json", _name_or_path="/root/.cache/BAAI_bge-small-en/")
    edit_json(
        folder / "tokenizer_config.json",
        name_or_path="../output/model",
        special_tokens_map_file="/home/me/special_tokens_map.json",
        tokenizer_file="/home/me/tokenizer.json",
        added_tokens_decoder={},
        extra_special_tokens=["/", ".."],
    )
    edit_json(folder / "config_sentence_transformers.json", prompts={"query": "/search ../: "})
    loaded = load_encoder(folder)
    assert loaded.prompts.before("query") == "/search ../: "
    np.testing.assert_array_equal(embed_texts(loaded, TEXTS), before)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "notes.txt", "1_Pooling"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str):
    place = tmp_path / "elsewhere" / name
    place.parent.mkdir()
    if (folder / name).exists():
        shutil.move(folder / name, place)
    else:
        place.touch()
    (folder / name).symlink_to(place)
    refused(folder, name, str(place))


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "modules.json", "more/notes.txt"]
)
def test_a_fifo_in_the_folder_is_not_opened(folder: Path, name: str):
    (folder / name).unlink(missing_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    os.mkfifo(folder / name)
    refused(folder, name, "FIFO")


def test_links_within_the_folder_are_followed(folder: Path):
    before = embed_texts(load_encoder(folder), TEXTS)
    (folder / "files").mkdir()
    shutil.move(folder / "tokenizer.json", folder / "files")
    (folder / "tokenizer.json").symlink_to("files/tokenizer.json")
    shutil.move(folder / "1_Pooling", folder / "files")
    (folder / "1_Pooling").symlink_to(folder / "files" / "1_Pooling")
    np.testing.assert_array_equal(embed_texts(load_encoder(folder), TEXTS), before)
    (folder / "circle").symlink_to("circle")
    np.testing.assert_array_equal(embed_texts(load_encoder(folder), TEXTS), before)


def as_cached(folder: Path, cache: Path) -> Path:
    """The snapshot of a folder in a cache of Hugging Face: links into the model's blobs."""
    model = cache / "models--me--tiny"
    snapshot = model / "snapshots" / "0123"
    (model / "blobs").mkdir(parents=True)
    for number, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        shutil.copy(file, model / "blobs" / str(number))
        place = snapshot / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(model / "blobs" / str(number), place.parent))
    return snapshot


def test_a_snapshot_of_hugging_face_reads_its_own_blobs(folder: Path, tmp_path: Path):
    snapshot = as_cached(folder, tmp_path / "hub")
    (tmp_path / "short").symlink_to(snapshot)
    for place in (snapshot, tmp_path / "short"):
        found = embed_texts(load_encoder(place), TEXTS)
        np.testing.assert_array_equal(found, embed_texts(load_encoder(folder), TEXTS))


def of_another_model(snapshot: Path, outside: Path) -> None:
    other = snapshot.parents[2] / "models--me--other" / "blobs"
    other.mkdir(parents=True)
    shutil.copy(outside, other / "0")
    (snapshot / "more.txt").symlink_to(other / "0")


def linked_blob(snapshot: Path, outside: Path) -> None:
    (snapshot.parents[1] / "blobs" / "0").unlink()
    (snapshot.parents[1] / "blobs" / "0").symlink_to(outside)


def linked_blobs(snapshot: Path, outside: Path) -> None:
    blobs = snapshot.parents[1] / "blobs"
    shutil.move(blobs, outside.parent / "blobs")
    blobs.symlink_to(outside.parent / "blobs")


def linked_folder(snapshot: Path, _: Path) -> None:
    (snapshot / "all").symlink_to(snapshot.parents[1] / "blobs")


def renamed(snapshot: Path, _: Path) -> None:
    snapshot.parents[1].rename(snapshot.parents[2] / "mine")


@pytest.mark.parametrize(
    "changed", [of_another_model, linked_blob, linked_blobs, linked_folder, renamed]
)
def test_a_snapshot_reads_no_other_files(
    folder: Path, secret: Path, tmp_path: Path, changed: Callable[[Path, Path], None]
):
    snapshot = as_cached(folder, tmp_path / "hub")
    refuse_outside(snapshot)
    changed(snapshot, secret)
    (found,) = (tmp_path / "hub").glob("m*/snapshots/0123")
    refused(found, "cp -rL")


@pytest.mark.parametrize("path", ["/etc", "../secret", "table/../../secret"])
def test_a_retriever_has_its_parts_in_its_folder(tmp_path: Path, path: str):
    save(made.retriever(), tmp_path / "r", "card")
    stated = json.loads((tmp_path / "r" / RETRIEVER).read_text())
    stated["spec"]["vectors"][-1]["folder"] = path
    (tmp_path / "r" / RETRIEVER).write_text(json.dumps(stated))
    with pytest.raises(UnsafeModelError) as raised:
        load_retriever(tmp_path / "r")
    assert all(value in str(raised.value) for value in (RETRIEVER, "folder", path))


@pytest.mark.parametrize("part", [TABLE, TOKEN_MAP, f"{TABLE}/tokenizer.json", RETRIEVER])
def test_a_part_of_a_retriever_that_is_elsewhere_is_refused(tmp_path: Path, part: str):
    save(made.retriever(), tmp_path / "r", "card")
    (tmp_path / "away").mkdir()
    shutil.move(tmp_path / "r" / part, tmp_path / "away" / "part")
    (tmp_path / "r" / part).symlink_to(tmp_path / "away" / "part")
    with pytest.raises(UnsafeModelError) as raised:
        load_retriever(tmp_path / "r")
    assert str(tmp_path / "away" / "part") in str(raised.value)


def test_a_retriever_with_a_table_is_read_from_a_cache(tmp_path: Path):
    save(made.retriever(), tmp_path / "r", "card")
    snapshot = as_cached(tmp_path / "r", tmp_path / "hub")
    assert load_retriever(snapshot).spec == made.retriever().spec


@given(st.lists(st.sampled_from(["..", ".", "a", "b..c", "", "..."]), min_size=1, max_size=5))
def test_a_path_that_leaves_the_folder_is_outside(parts: list[str]):
    """Against the file system's own rule: no relative path of ours leaves it unnoticed."""
    path = "/".join(parts)
    end = os.path.normpath(os.path.join("/root/model", path))  # noqa: PTH118
    leaves = end != "/root/model" and not end.startswith("/root/model/")
    assert bool(OUTSIDE.match(path)) >= leaves
    assert bool(OUTSIDE.match(path)) == (".." in parts or path.startswith("/"))
