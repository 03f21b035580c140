"""Checks of a model folder before anything in it is loaded.

Nothing from outside, no pickle, no code, weights present. Imports neither torch nor transformers.
"""

import json
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError

PICKLED = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"}
"""Endings of files that can run code when they are loaded."""

KNOWN_CODE = "sentence_transformers."

SETTINGS = ("*config*.json", "modules.json", "retriever.json", "*.index.json")
"""Files in which a model may name other files; vocabularies hold texts only."""

NOTES = {"_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file"}
"""Entries in which published models note where they were trained. Nothing opens these paths."""

TEXTS = re.compile(
    r".*_tokens?|added_tokens_decoder|prompts|chat_template|(default_)?prompt_name|id2label|"
    r"label2id|task_specific_params"
)
"""Entries of texts, which may look like paths."""

OUTSIDE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:|(.*[/\\])?\.\.([/\\].*)?$", re.DOTALL)
"""An absolute path, or one with the part `..`."""

TOKENIZER_FILES = re.compile(r"vocab|merges|.*_(file|spm)")
"""Entries of tokenizer_config.json of which transformers opens some as given."""


def read_json(path: Path, default: Any = None) -> Any:
    """The content of a JSON file; `default` ({} if not given) where there is no file.

    Raises:
        BadDataError: The file is broken, or holds another type than `default`.
    """
    default = {} if default is None else default
    if not path.is_file():
        return default
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadDataError(f"{path} is broken JSON: {error}. Copy the encoder again.") from error
    if type(content) is not type(default):
        raise BadDataError(
            f"{path} of an encoder must hold a {type(default).__name__}, found a "
            f"{type(content).__name__}. Copy the encoder again."
        )
    return content


def refuse_outside(folder: Path) -> None:
    """Refuse a folder whose settings or links lead out of it.

    A snapshot in a cache of Hugging Face consists of links into the model's own `blobs`.

    Raises:
        UnsafeModelError: With the file, and the entry or the place that it leads to.
    """
    root = folder.resolve()
    for path in sorted(root.rglob("*")):  # which does not enter a linked folder
        if path.is_symlink():
            _refuse_link(path, root)
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in SETTINGS):
            for key, text in _named_paths(path):
                if OUTSIDE.match(text):
                    raise UnsafeModelError(
                        "The settings of a model name files of its own folder, by relative paths "
                        f"without '..'; {folder / path.relative_to(root)} has {key} = "
                        f"{text[:200]!r}. Correct the entry in a copy of the folder, or save the "
                        "model again."
                    )
    for path, key, value in _tokenizer_inputs(root):
        raise UnsafeModelError(
            "A tokenizer is read from the files of its folder, and they hold its vocabulary; "
            f"{folder / path} has {key} = {value[:200]}. Save the tokenizer again."
        )


def _tokenizer_inputs(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield entries that transformers takes for the path of a vocabulary: file, key and value."""
    if inputs := read_json(root / "tokenizer_config.json").get("init_inputs"):
        yield "tokenizer_config.json", "init_inputs", str(inputs)
    for path in sorted(root.glob("tokenizer*.json")):
        model = read_json(path).get("model")
        for key in ("vocab", "merges"):
            if isinstance(model, dict) and isinstance(model.get(key), str):
                yield path.name, f"model.{key}", model[key]


def tokenizer_files(folder: Path) -> list[str]:
    """Return the entries of tokenizer_config.json that name a file of the tokenizer."""
    stated = read_json(folder / "tokenizer_config.json")
    return [
        key
        for key, value in stated.items()
        if isinstance(value, str) and TOKENIZER_FILES.fullmatch(key)
    ]


def _refuse_link(path: Path, root: Path) -> None:
    target = Path(os.path.realpath(path))  # of links in a circle: one of them
    blobs = _own_blobs(root)
    if target.is_relative_to(root) or (blobs and target.is_file() and target.parent == blobs):
        return
    raise UnsafeModelError(
        "A link in a model folder leads to a file of this folder (or, in a cache of Hugging Face, "
        f"to a blob of the same model); {path} leads to {target}. Copy the folder with its files: "
        "`cp -rL` replaces links by files."
    )


def _own_blobs(root: Path) -> Path | None:
    """Return the folder of blobs beside the snapshot that this folder is in, if it is in one."""
    for folder in (root, *root.parents):
        model = folder.parent.parent
        if folder.parent.name == "snapshots" and model.name.startswith("models--"):
            return model / "blobs"
    return None


def _named_paths(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON file, with their keys, except notes and entries of texts."""
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(file.read_text(encoding="utf-8")))]
    except (ValueError, RecursionError):  # its reader names the fault
        return
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            waiting += [(key, each) for each in value]
        elif isinstance(value, dict):
            waiting += [
                (name, each)
                for name, each in value.items()
                if name not in NOTES and not TEXTS.fullmatch(name)
            ]


def refuse_pickles(folder: Path, *, unless_beside_safetensors: bool = False) -> None:
    """Refuse a folder with pickled weights.

    With `unless_beside_safetensors`, pickles beside safetensors are accepted, as many published
    models have both. They are never read.

    Raises:
        UnsafeModelError: With the names of the files.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix in PICKLED)
    if not found or (unless_beside_safetensors and any(folder.glob("*.safetensors"))):
        return
    names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
    raise UnsafeModelError(
        "Weights are read from safetensors only, because a pickle can run code. "
        f"{folder} holds {names}. Remove these files, or save the model again with safetensors."
    )


def refuse_code(folder: Path) -> None:
    """Refuse a folder that names Python code of its own.

    Raises:
        UnsafeModelError: With the file and the code that it names.
    """
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in read_json(folder / name):
            raise UnsafeModelError(
                f"Code that comes with a model is never run, and {folder / name} names some "
                "(auto_map). Take an encoder whose architecture is part of transformers."
            )
    for entry in read_json(folder / "modules.json", default=[]):
        if not str(entry.get("type")).startswith(KNOWN_CODE):
            raise UnsafeModelError(
                f"Code that comes with a model is never run, and {folder / 'modules.json'} names "
                f"{entry.get('type')!r}. Take an encoder whose modules are all classes of "
                f"{KNOWN_CODE}*"
            )


def require_weights(folder: Path) -> None:
    """Refuse a folder without weights in safetensors.

    Raises:
        MissingEncoderError: There are none.
    """
    if not any(folder.glob("*.safetensors")):
        raise MissingEncoderError(
            f"An encoder's weights are a safetensors file, and {folder} has none. Check the path. "
            "A model that is published as a pickle only must be saved again as safetensors."
        )
