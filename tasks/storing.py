"""The store of this process, as tasks and flows read from it and write to it."""

from contextlib import AbstractContextManager
from pathlib import Path

from sentemb_core.store.objects import Draft, Store
from sentemb_core.types import ArtifactRef
from tasks.walking import PENDING, Undecided


def opened(artifact: ArtifactRef) -> Path:
    """The verified folder of an artifact.

    Raises:
        Undecided: in a plan, when the artifact is yet to be made.
    """
    if artifact.digest == PENDING:
        raise Undecided(artifact.kind)
    return Store.default().path(artifact)


def written(kind: str) -> AbstractContextManager[Draft]:
    """A folder to fill; `draft.ref` names it once the block is left."""
    return Store.default().writing(kind)
