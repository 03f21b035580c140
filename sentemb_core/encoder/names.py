"""Where an encoder of a name can be; read without torch, whose import takes seconds."""

import re
from pathlib import Path

from sentemb_core.errors import MissingEncoderError, UsageError
from sentemb_core.formats import did_you_mean

PUBLISHED = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""NAME or OWNER/NAME, as on Hugging Face; `static` and `minilm` look like one."""

HEAD_FILE = "condenser_head.safetensors"
"""In an encoder's folder: what a Condenser stage trained with it, for the methods that go on."""

WORD_FILES = (".txt", ".vec", ".bin")
"""Endings of files of word vectors; .gz may follow."""


def require_place(name: str) -> None:
    """That an encoder is a folder or a file of word vectors here, or may be one by its name.

    Raises:
        UsageError: it is one of the model registry.
        MissingEncoderError: it is a path, and there is neither; or a known name in another case.
    """
    from sentemb_core.config.run import (
        BUILT_IN_ENCODERS,  # pydantic, which `--help` does not wait for
    )

    known = name.lower()
    if name != known and known in BUILT_IN_ENCODERS and not Path(name).is_dir():
        raise MissingEncoderError(f"There is no encoder {name!r}; {did_you_mean(known)}")
    if name.startswith("models:"):
        raise UsageError(
            f"An encoder is a folder or a name, and {name} is a registered model: `python -m flows "
            f"where {name}` prints its folder (`python -m flows` run, benchmark, encode, search "
            "and canary take the model itself)."
        )
    if is_word_file(name) or (not is_file(name) and PUBLISHED.fullmatch(name)):
        return
    if not Path(name).is_dir():
        found = "a file of another kind" if is_file(name) else "a path, and there is no folder"
        raise MissingEncoderError(
            f"An encoder is a folder or a name, or a file of word vectors ({', '.join(WORD_FILES)}"
            f"); {name!r} is {found} ({Path(name).absolute()}). Check the path."
        )


def is_word_file(name: str) -> bool:
    """Whether there is a file of this name, with an ending of word vectors."""
    return is_file(name) and name.lower().removesuffix(".gz").endswith(WORD_FILES)


def is_encoder(name: str) -> bool:
    """Whether what lies at a path is an encoder, by the names of its files."""
    return is_word_file(name) or any(Path(name).glob("*.safetensors"))


def is_file(name: str) -> bool:
    """Whether there is a file; a text longer than any path is none."""
    try:
        return Path(name).is_file()
    except OSError:
        return False
