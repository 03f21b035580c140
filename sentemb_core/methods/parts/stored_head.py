"""The head of a Condenser stage, stored beside its encoder.

infocse_aux, diffcse and rtd_mlm start from both.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from sentemb_core.encoder.names import HEAD_FILE
from sentemb_core.errors import BadDataError


class HeadShape(NamedTuple):
    """The number of layers of a head, and the encoder layer whose states it takes."""

    layers: int
    below: int


def write_head(weights: Mapping[str, Tensor], shape: HeadShape, folder: Path) -> None:
    """Write a `MaskFiller`'s weights into an encoder's folder; equal weights give equal bytes."""
    tensors = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    metadata = {"condenser": json.dumps(shape._asdict())}  # two entries have a random order
    (folder / HEAD_FILE).write_bytes(save(tensors, metadata=metadata))


def head_in(folder: Path) -> dict[str, Tensor] | None:
    """Return the head beside an encoder, if there is one.

    Raises:
        BadDataError: its file is damaged.
    """
    path = folder / HEAD_FILE
    if not path.is_file():
        return None
    try:
        return load_file(path)
    except SafetensorError as error:
        raise _damaged(path, error) from error


def head_shape(folder: Path) -> HeadShape | None:
    """Return the shape in a head's file; None if the file states none or does not exist.

    Raises:
        BadDataError: the file is damaged.
    """
    path = folder / HEAD_FILE
    try:
        with safe_open(path, framework="pt") as file:
            shape = (file.metadata() or {}).get("condenser")
    except SafetensorError as error:
        raise _damaged(path, error) from error
    if not shape:
        return None
    try:
        return HeadShape(**json.loads(shape))
    except (ValueError, TypeError) as error:
        raise _damaged(path, f"its metadata is {shape[:80]!r}") from error


def carry_head(source: Path, target: Path) -> None:
    """Copy the head, if there is one, to another folder of the same encoder."""
    if (source / HEAD_FILE).is_file():
        shutil.copyfile(source / HEAD_FILE, target / HEAD_FILE)


def _damaged(path: Path, what: object) -> BadDataError:
    return BadDataError(f"The Condenser's head in {path} is damaged: {what}. Copy it again.")
