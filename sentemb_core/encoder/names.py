"""Where an encoder of a name can be; read without torch, whose import takes seconds."""

import re
from pathlib import Path

from sentemb_core.errors import MissingEncoderError, UsageError

PUBLISHED = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""NAME or OWNER/NAME, as on Hugging Face; `static` and `minilm` look like one."""


def require_place(name: str) -> None:
    """That an encoder is a folder here, or may be one that a name describes.

    Raises:
        UsageError: it is one of the model registry.
        MissingEncoderError: it is a path, and there is no folder.
    """
    if name.startswith("models:"):
        raise UsageError(
            f"An encoder is a folder or a name, and {name} is a registered model: `python -m flows "
            f"where {name}` prints its folder (`python -m flows` canary, encode and search take "
            "the model itself, by --model)."
        )
    if not (Path(name).is_dir() or PUBLISHED.fullmatch(name)):
        raise MissingEncoderError(
            f"An encoder is a folder or a name; {name!r} is a path, and there is no folder "
            f"({Path(name).absolute()}). Check the path."
        )
