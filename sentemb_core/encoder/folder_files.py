"""The files of a model folder: settings with checked types, and the folders of its modules.

Imports neither torch nor transformers.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError
from sentemb_core.types import Json

MODEL2VEC = "model2vec"
"""Model type of a table of token vectors that states no modules."""

KNOWN_CODE = "sentence_transformers."

LARGEST = 100_000_000
"""Bytes of a JSON file. The largest vocabularies, of 262,144 tokens, have 35 million."""

POINTER = b"version https://git-lfs"
"""Beginning of a file that stands for another one, until git-lfs fetches it."""

TYPES: dict[str, type | tuple[type, ...]] = {
    "activation_function": str,
    "creator": str,
    "default_prompt_name": str,
    "include_prompt": bool,
    "max_position_embeddings": int,
    "max_seq_length": int,
    "model_max_length": (int, float),
    "model_type": str,
    "module_input_name": str,
    "module_output_name": str,
    "prompts": dict,
    "quantization_config": dict,
    "sentence_length": int,
    "similarity_fn_name": str,
    "truncate_dim": int,
}
"""Types of the entries that are read here; null is as good as no entry."""

TOKENIZER_PATHS = re.compile(r"vocab|merges|.*_(file|spm)")
"""Entries of tokenizer_config.json of which transformers opens some as given."""


def read_json(path: Path, default: Any = None) -> Any:
    """Return the content of a JSON file; `default` ({} if not given) where there is no file.

    Raises:
        BadDataError: The file is broken, too large, or holds another type than `default`; or one of
            its entries has another type than `TYPES`.
    """
    default = {} if default is None else default
    if not path.is_file():
        return default
    if (size := path.stat().st_size) > LARGEST:
        raise BadDataError(
            f"A JSON file of an encoder has at most {LARGEST:,} bytes; {path} has {size:,}. Copy "
            "the encoder again."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        refuse_pointer(path)
        raise BadDataError(f"{path} is broken JSON: {error}. Copy the encoder again.") from error
    if type(content) is not type(default):
        raise BadDataError(
            f"{path} of an encoder must hold a {type(default).__name__}, found a "
            f"{type(content).__name__}. Copy the encoder again."
        )
    for entries in [content] if isinstance(content, dict) else content:
        _require_types(path, entries)
    return content


def refuse_pointer(path: Path) -> None:
    """Refuse a small file in the place of one that git-lfs has not fetched.

    Raises:
        MissingEncoderError: It is one.
    """
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise MissingEncoderError(
                f"{path} stands for a file that git-lfs has not fetched yet. Run `git lfs pull` in "
                "the folder, or download the model again."
            )


def _require_types(path: Path, entries: Any) -> None:
    if not isinstance(entries, dict):
        raise BadDataError(
            f"The entries of {path} must be objects, found {str(entries)[:80]}. Copy the encoder "
            "again."
        )
    for key in TYPES.keys() & entries.keys():
        value, kinds = entries[key], TYPES[key]
        if value is None or (isinstance(value, kinds) and (kinds is bool or value is not True)):
            continue
        names = [kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
        raise BadDataError(
            f"{key} in {path} must be of type {' or '.join(names)}, found {str(value)[:80]}. "
            "Correct it in a copy of the folder, or copy the encoder again."
        )


def module_paths(folder: Path) -> list[tuple[str, Path]]:
    """Return class name and folder of every module; empty for a transformer without modules.json.

    Raises:
        UnsafeModelError: A module is no class of sentence-transformers.
        BadDataError: A module has no path.
    """
    found: list[tuple[str, Path]] = []
    for entry in read_json(folder / "modules.json", default=[]):
        if not str(entry.get("type")).startswith(KNOWN_CODE):
            raise UnsafeModelError(
                f"Code that comes with a model is never run, and {folder / 'modules.json'} names "
                f"{entry.get('type')!r}. Take an encoder whose modules are all classes of "
                f"{KNOWN_CODE}*"
            )
        if not isinstance(entry.get("path"), str):
            raise BadDataError(
                f"A module has a path in its folder; {folder / 'modules.json'} has "
                f"{str(entry)[:80]}. Copy the encoder again."
            )
        found.append((entry["type"].rsplit(".")[-1], folder / entry["path"]))
    if not found and (config := read_json(folder / "config.json")).get("model_type") == MODEL2VEC:
        normalize = [("Normalize", folder / "1_Normalize")] if config.get("normalize") else []
        return [("StaticEmbedding", folder), *normalize]
    return found


def first_folder(folder: Path) -> Path:
    """Return the folder of the first module, which holds tokenizer and transformer or table."""
    return next((path for _, path in module_paths(folder)), folder)


def is_static(folder: Path) -> bool:
    """Whether a folder has a static table (StaticEmbedding of sentence-transformers)."""
    return "StaticEmbedding" in dict(module_paths(folder))


def transformer_settings(root: Path) -> Json:
    """sentence_bert_config.json, or the file that early releases named after another family."""
    files = sorted(root.glob("sentence_*_config.json"))
    return read_json(files[0]) if files else {}


def tokenizer_paths(root: Path) -> Iterator[str]:
    """Yield the entries of tokenizer_config.json that name a file of the tokenizer."""
    for key, value in read_json(root / "tokenizer_config.json").items():
        if isinstance(value, str) and TOKENIZER_PATHS.fullmatch(key):
            yield key
