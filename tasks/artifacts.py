"""Artifacts of this process's store, as tasks read and write them."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from sentemb_core.store.objects import Draft, Store
from sentemb_core.store.parts import parts_of
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.execution import UnknownResult, is_pending


def artifact_path(artifact: ArtifactRef) -> Path:
    """The verified folder of an artifact; UnknownResult in a dry run, if it does not exist yet.

    The parts of a joined artifact are verified, too.
    """
    if is_pending(artifact):
        raise UnknownResult(artifact.kind)
    store = Store.default()
    folder = store.path(artifact)
    for part in parts_of(folder):
        store.path(part)
    return folder


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


class Texts(Value):
    """The corpus of a run, and the pool that validates its encoders."""

    documents: ArtifactRef
    validation_pool: ArtifactRef
    sentences: ArtifactRef


class Labelled(Value):
    """Documents whose last sentence is their counterpart, and how many there are."""

    documents: ArtifactRef
    count: int


class Annotation(Value):
    """What an encoder found in the corpus. `edges`, if they and not the clusters are the pairs."""

    clusters: ArtifactRef
    pairs: ArtifactRef
    edges: ArtifactRef | None = None


class Trained(Value):
    """An encoder and the log of its training."""

    model: ArtifactRef
    log: ArtifactRef


RowKind = Literal["start", "annotator", "trained", "round", "fine-tuned", "mapped", "control"]


class EncoderResult(Value):
    """One encoder of a run: its parent, its scores, and what it was trained on."""

    kind: RowKind
    label: str
    encoder: ArtifactRef
    sentences: ArtifactRef
    scores: ArtifactRef
    parent: str = ""  # label of the encoder that training began with; empty for a start
    embeddings: ArtifactRef | None = None
    log: ArtifactRef | None = None
    annotation: Annotation | None = None
    diagnostics: ArtifactRef | None = None


class RetrieverResult(Value):
    """The retriever that a run chose: its choice and scores, and the parts to assemble it from."""

    choice: ArtifactRef
    scores: ArtifactRef
    without_encoder: ArtifactRef | None
    encoders: dict[str, ArtifactRef]
    token_maps: dict[str, ArtifactRef]
    bases: dict[str, str]  # name of a whitened encoder -> label of the encoder below the map
    compared: ArtifactRef | None = None  # the choice among several whitened encoders


class RunResult(Value):
    """A finished loop: its encoders in order, controls, fixed rows, and the index of the best."""

    texts: Texts
    rows: list[EncoderResult]
    controls: list[EncoderResult]
    bm25: ArtifactRef
    random: ArtifactRef
    best: int
    labels: int = 0  # the number of labels it was trained on
    retriever: RetrieverResult | None = None

    @property
    def path(self) -> list[EncoderResult]:
        """The best encoder, and before it its ancestors from the start on."""
        return self.path_to(self.rows[self.best])

    def path_to(self, row: EncoderResult) -> list[EncoderResult]:
        """A row or a control, and before it its ancestors from the start on."""
        before = self.rows[: self.rows.index(row)] if row in self.rows else self.rows
        earlier = {row.label: row for row in (*before, *self.controls)}
        path = [row]
        while parent := path[0].parent:
            path.insert(0, earlier[parent])
        return path

    @property
    def best_trained(self) -> EncoderResult:
        """The best encoder; if it has a map, the encoder without the map."""
        best = self.rows[self.best]
        if best.kind != "mapped":
            return best
        return next(row for row in self.rows if row.label == best.parent)
