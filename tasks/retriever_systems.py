"""The systems of a table; a retriever has several parts, and its vectors a line of their own."""

from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import Fixed
from sentemb_core.types import ArtifactRef, Value

if TYPE_CHECKING:
    from sentemb_core.retriever.spec import RetrieverSpec

ALONE = "vectors alone"


class RetrieverSystem(Value):
    """A retriever in a table.

    Attributes:
        retriever: All its parts.
        encoder: Its root encoder; None for a retriever of words alone.
        parts: Its parts in words.
        has_vectors_alone: Whether its vectors have a line of their own.
    """

    retriever: ArtifactRef
    encoder: ArtifactRef | None
    parts: tuple[str, ...]
    has_vectors_alone: bool


System = ArtifactRef | RetrieverSystem | Fixed
"""An encoder, a retriever, or a baseline."""


def vectors_label(label: str) -> str:
    """Return the name of a retriever's vectors in a table."""
    return f"{label}, {ALONE}"


def retriever_in(folder: Path) -> "RetrieverSpec | None":
    """Return what retriever.json of a folder states; None without the file.

    Raises:
        BadDataError: the file is broken or of another form.
    """
    from sentemb_core.retriever.folder import retriever_file

    stated = retriever_file(folder)
    return stated.spec if stated else None
