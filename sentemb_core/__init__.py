"""sentemb: unlabelled documents in, a sentence encoder for their domain out."""

from importlib import import_module
from typing import Any

INTERFACE = ["Evaluation", "Hit", "Index", "Retriever", "evaluate", "load", "read"]


def __getattr__(name: str) -> Any:
    """Import the interface at its first use: `import sentemb_core` loads no torch.

    Its types are in __init__.pyi, which no stage's code depends on.
    """
    if name in INTERFACE:
        return getattr(import_module("sentemb_core.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what a notebook completes: the interface."""
    return INTERFACE
