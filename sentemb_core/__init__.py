"""sentemb: unlabelled documents in, a sentence encoder for their domain out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb_core.api import Evaluation, Hit, Index, Retriever, evaluate, load, read

__all__ = ["Evaluation", "Hit", "Index", "Retriever", "evaluate", "load", "read"]


def __getattr__(name: str) -> Any:
    """Import the interface at its first use: `import sentemb_core` loads no torch."""
    if name in __all__:
        return getattr(import_module("sentemb_core.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
