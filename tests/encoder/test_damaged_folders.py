"""A model folder with any change is read, or refused with a code."""

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.encoder.probe import found_in
from sentemb_core.encoder.start import encoder_kind
from sentemb_core.errors import SentembError
from tests.encoder.published import edit_json, read
from tests.encoder.starting import start
from tests.encoder.test_layouts import as_model2vec, in_sub_folder
from tests.examples import fixed

ODD = [None, True, -1, 0, 1, 3, 10**5, 1.5, "", "a", "../a", "/etc/passwd", [], [1], {}, {"a": 1}]
NAMES = ["config.json", "adapter_config.json", "pytorch_model.bin", "model.onnx", "vocab.txt"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of every layout, as if other programs wrote them."""
    place = tmp_path_factory.mktemp("folders")
    shapes = [("static", "mean"), ("transformer", "cls"), ("transformer", "first_last_mean")]
    for number, (kind, pooling) in enumerate(shapes):
        save_encoder(start(kind, pooling=pooling), place / str(number), "card")
        settings = place / str(number) / "config_sentence_transformers.json"
        edit_json(settings, creator="others", prompts={"query": "find: ", "document": ""})
    for name in ("0", "1"):
        shutil.copytree(place / name, place / f"{name}-early")
        in_sub_folder(place / f"{name}-early", "0_First")
    shutil.copytree(place / "0", place / "model2vec")
    as_model2vec(place / "model2vec", shared_rows=True)
    return sorted(place.iterdir())


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all entries below a JSON value, at most 40 of a long list or object."""
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    found = []
    for key, value in list(entries)[:40]:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def edit_entry(file: Path, data: st.DataObject) -> None:
    """Replace or remove one entry of a JSON file, or the whole content."""
    content = json.loads(file.read_text())
    path = data.draw(st.sampled_from([(), *places(content)]))
    value = data.draw(st.sampled_from([*ODD, "remove"]))
    if not path:
        file.write_text(json.dumps(value))
        return
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    if value == "remove":
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    file.write_text(json.dumps(content))


def edit_bytes(file: Path, data: st.DataObject) -> None:
    """Flip a bit, most often near the start; cut the file; or write other bytes."""
    content = bytearray(file.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "bytes", "remove"]))
    if kind == "remove":
        file.unlink()
        return
    if kind == "bytes":
        content = data.draw(st.binary(max_size=40))
    elif content:
        end = data.draw(st.sampled_from([20, 400, len(content)]))
        at = data.draw(st.integers(0, min(end, len(content)) - 1))
        content = content[:at] if kind == "cut" else content
        if kind == "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)


def change(folder: Path, data: st.DataObject) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from([*files, folder / data.draw(st.sampled_from(NAMES))]))
    if not file.exists():
        file.write_bytes(data.draw(st.sampled_from([b"", b"{}", b"[1]", b"x y\n"])))
    elif file.suffix == ".json" and data.draw(st.booleans()):
        edit_entry(file, data)
    else:
        edit_bytes(file, data)


@fixed(60)
@given(st.data())
def test_a_changed_folder_is_read_or_refused(folders: list[Path], data: st.DataObject):
    source = data.draw(st.sampled_from(folders))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(source, Path(place) / "model"))
        change(folder, data)
        opened = data.draw(st.sampled_from([load_encoder, read]))
        with suppress(SentembError):
            encoder_kind(str(folder))
            if not found_in(folder):
                embed_texts(opened(folder), ["agency pays", "your claim form by mail ?"])
