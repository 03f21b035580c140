"""The JSON files of an encoder's folder, read without what an encoder itself needs."""

import json
from pathlib import Path
from typing import Any

from sentemb_core.errors import BadDataError


def read_json(path: Path, default: Any = None) -> Any:
    """The content of a JSON file; `default`, or nothing ({}), where there is none.

    Raises:
        BadDataError: It is broken, or holds another kind of thing than the default is.
    """
    default = {} if default is None else default
    if not path.is_file():
        return default
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadDataError(f"{path} is broken JSON: {error}. Copy the encoder again.") from error
    if type(found) is not type(default):
        raise BadDataError(f"{path} is of no encoder: it holds a {type(found).__name__}.")
    return found
