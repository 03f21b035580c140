"""Whether a backbone can do what the settings of its encoder ask of it."""

from typing import Any

from sentemb_core.encoder.families import begins_with_a_word
from sentemb_core.encoder.modules import Settings
from sentemb_core.encoder.positions import positions_of
from sentemb_core.encoder.static import StaticTable
from sentemb_core.errors import UsageError
from sentemb_core.types import Pooling


def require_fit(backbone: Any, settings: Settings) -> None:
    """Refuse settings that the backbone cannot serve.

    Raises:
        UsageError: E001, a pooling that it has no states or no weights for, or texts longer than
            the positions it knows.
    """
    require_pooling(backbone, settings["pooling"])
    longest = positions_of(backbone)
    if longest is not None and settings["max_length"] > longest:
        raise UsageError(
            f"max_length is {settings['max_length']}, and this encoder knows {longest} positions: "
            "lower it."
        )


def require_pooling(backbone: Any, pooling: Pooling) -> None:
    """Refuse a pooling that the backbone has no states or no weights for.

    Raises:
        UsageError: E001, with the poolings that it has.
    """
    if isinstance(backbone, StaticTable) and pooling != "mean":
        raise UsageError(
            f"A static encoder knows pooling 'mean' alone; found {pooling!r}: leave it out, or "
            "start from a transformer such as 'minilm'."
        )
    if begins_with_a_word(backbone) and pooling in ("cls", "cls_before_pooler"):
        raise UsageError(
            f"Pooling {pooling!r} reads a first token that stands for the sentence, and "
            f"{type(backbone).__name__} has none: it begins with the first word. Take 'mean' or "
            "one of two layers."
        )
    if pooling == "cls" and not hasattr(getattr(backbone, "pooler", None), "dense"):
        raise UsageError(
            "Pooling 'cls' takes the pretrained pooler of the encoder, and this one has none: take "
            "'cls_before_pooler' or 'mean'."
        )
