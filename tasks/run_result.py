"""What the stages of a run hand back to its flow: references, nothing heavy."""

from typing import Any, Literal, cast

from pydantic import model_validator

from sentemb_core.types import ArtifactRef, Json, Value


class Texts(Value):
    """The corpus of a run and how it is judged."""

    documents: ArtifactRef
    validation_pool: ArtifactRef
    sentences: ArtifactRef


class Labelled(Value):
    """Documents whose last sentence is their counterpart, and how many there are."""

    documents: ArtifactRef
    count: int


class Annotation(Value):
    """What an encoder found in the corpus; edges, where they and not clusters are the pairs."""

    clusters: ArtifactRef
    pairs: ArtifactRef
    edges: ArtifactRef | None = None  # not in the outcomes of older versions


class Trained(Value):
    """An encoder and the log of the training that made it."""

    model: ArtifactRef
    log: ArtifactRef


RowKind = Literal["start", "annotator", "trained", "round", "fine-tuned", "mapped", "control"]


class EncoderResult(Value):
    """One encoder of the run: where it came from, what it scores, what it found."""

    kind: RowKind
    label: str
    encoder: ArtifactRef
    sentences: ArtifactRef
    scores: ArtifactRef
    before: str = ""  # label of the row whose encoder learnt; none of a start
    embeddings: ArtifactRef | None = None
    log: ArtifactRef | None = None
    annotation: Annotation | None = None
    diagnostics: ArtifactRef | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_its_head(cls, told: Any) -> Any:
        """Outcomes of older versions tell of it; it lies in the encoder's folder now."""
        if not isinstance(told, dict):
            return told
        return {name: value for name, value in cast(Json, told).items() if name != "head"}


class RunResult(Value):
    """A finished loop: its rows in order, the controls, the fixed rows, the index of the best."""

    texts: Texts
    rows: list[EncoderResult]
    controls: list[EncoderResult]
    bm25: ArtifactRef
    random: ArtifactRef
    best: int
    labels: int = 0  # those that it learnt from; not in the outcomes of older versions

    @property
    def path(self) -> list[EncoderResult]:
        """The best row, and before it those that its encoder came from."""
        known = {row.label: row for row in self.rows[: self.best]}
        found = [self.rows[self.best]]
        while before := found[0].before:
            found.insert(0, known[before])
        return found

    @property
    def learnt(self) -> EncoderResult:
        """The best row; of one behind a map, the row whose encoder that is."""
        best = self.rows[self.best]
        if best.kind != "mapped":
            return best
        return next(row for row in self.rows if row.label == best.before)
