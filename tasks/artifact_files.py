"""Artifacts of this process's store, as tasks read and write them."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

from sentemb_core.store.objects import Draft, Store
from sentemb_core.types import ArtifactRef, Json
from tasks.execution import UnknownResult, is_pending


def artifact_path(artifact: ArtifactRef) -> Path:
    """The verified folder of an artifact.

    Raises:
        UnknownResult: in a dry run, the artifact does not exist yet.
    """
    if is_pending(artifact):
        raise UnknownResult(artifact.kind)
    return Store.default().path(artifact)


def new_artifact(kind: str) -> AbstractContextManager[Draft]:
    """A folder to fill; after the block, `draft.ref` is the reference of the artifact."""
    return Store.default().writing(kind)


def save_json(kind: str, value: Json) -> ArtifactRef:
    """Store a value as an artifact of one file, KIND.json."""
    with new_artifact(kind) as draft:
        (draft.path / f"{kind}.json").write_text(json.dumps(value, indent=1), encoding="utf-8")
    return draft.ref


def read_json(artifact: ArtifactRef, name: str) -> Json:
    """The value of NAME.json in an artifact."""
    return json.loads((artifact_path(artifact) / f"{name}.json").read_text("utf-8"))
