"""The store of this process, as tasks and flows read from it and write to it."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

from sentemb_core.store.objects import Draft, Store
from sentemb_core.types import ArtifactRef, Json
from tasks.execution import UnknownResult, is_pending


def artifact_path(artifact: ArtifactRef) -> Path:
    """The verified folder of an artifact.

    Raises:
        UnknownResult: in a plan, when the artifact is yet to be made.
    """
    if is_pending(artifact):
        raise UnknownResult(artifact.kind)
    return Store.default().path(artifact)


def new_artifact(kind: str) -> AbstractContextManager[Draft]:
    """A folder to fill; `draft.ref` names it once the block is left."""
    return Store.default().writing(kind)


def save_json(kind: str, told: Json) -> ArtifactRef:
    """KIND.json alone."""
    with new_artifact(kind) as draft:
        (draft.path / f"{kind}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    return draft.ref


def read_json(artifact: ArtifactRef, name: str) -> Json:
    """What stands in NAME.json of an artifact."""
    return json.loads((artifact_path(artifact) / f"{name}.json").read_text("utf-8"))
