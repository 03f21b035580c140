"""Checks of a model folder before anything in it is loaded: no pickle, no code, weights present.

Imports neither torch nor transformers.
"""

import json
from pathlib import Path
from typing import Any

from sentemb_core.errors import BadDataError, MissingEncoderError, UnsafeModelError

PICKLED = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"}
"""Endings of files that can run code when they are loaded."""

KNOWN_CODE = "sentence_transformers."


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
