"""What models and folders are called in a table."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

ARTIFACT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}(/data)?/?$")
"""How the folder of an artifact ends."""


def labelled(models: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Models or folders by their names in a table: the shortest end of each that is its alone.

    Args:
        models: What was asked for, each once.
        taken: Names that others have in the table.
    """
    bearers = Counter([*taken, *(end for model in models for end in ends(model))])
    return {next((end for end in ends(one) if bearers[end] == 1), one): one for one in models}


def ends(model: str) -> list[str]:
    """NAME@ALIAS, or the last part of a folder or a name, the last two, and so on.

    An artifact of the store is its folder, by the first letters of its digest.
    """
    if model.startswith("models:/"):
        return [model.removeprefix("models:/"), model]
    parts = Path(ARTIFACT.sub(r"\1", model)).parts
    return [str(Path(*parts[-n:])) for n in range(1, len(parts) + 1)]
