"""Seals: a JSON value with its SHA-256, so that a reader never accepts a flipped bit.

All files of the home that are read back have this form: stage records, runs, a run's appended
stages and tracking events (one sealed value per line), the list of registries. Artifacts and
checkpoints have manifests of their own (`objects.py`, `training/checkpoint.py`).
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sentemb_core.types import Value

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal digits."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value: sorted keys, no spaces, ASCII, no NaN (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class Envelope(Value):
    """A sealed value. The name of the serializer only shows which program wrote the file."""

    model_config = ConfigDict(strict=True)

    serializer: Literal["sentemb-json"]
    sha256: Digest
    record: Any


def sealed(value: Any) -> bytes:
    """Return a value with its seal, in one line without an end.

    Raises:
        ValueError, TypeError: the value is not finite JSON.
    """
    seal = hashlib.sha256(canonical(value)).hexdigest()
    return canonical({"serializer": "sentemb-json", "sha256": seal, "record": value})


def unsealed(content: bytes) -> Any:
    """Return the value of a sealed file or line.

    Raises:
        ValueError: no seal (an earlier version wrote it), another form, or changed content.
    """
    envelope = Envelope.model_validate_json(content)
    if hashlib.sha256(canonical(envelope.record)).hexdigest() != envelope.sha256:
        raise ValueError("its content does not have its SHA-256")
    return envelope.record
