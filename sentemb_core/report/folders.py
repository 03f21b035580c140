"""The artifacts of a run that its report is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.evaluation.round_diagnostics import Diagnostics, read_diagnostics
from sentemb_core.report.data import Kind


@dataclass(frozen=True)
class RoundFolders:
    """The folders of one encoder of the run."""

    label: str
    kind: Kind
    encoder: Path
    scores: Path
    embeddings: Path | None = None
    log: Path | None = None
    clusters: Path | None = None
    pairs: Path | None = None
    diagnostics: Path | None = None
    seconds: float | None = None

    def read_diagnostics(self) -> Diagnostics | None:
        return read_diagnostics(self.diagnostics) if self.diagnostics else None

    def vectors(self) -> Embeddings | None:
        return Embeddings(self.embeddings) if self.embeddings else None


@dataclass(frozen=True)
class RunFolders:
    """The folders of a run; `rounds[best]` is the encoder that it returned."""

    documents: Path
    benchmark: Path
    sentences: Path
    rounds: Sequence[RoundFolders]
    fixed: Mapping[str, Path]
    best: int
    annotation: AnnotationConfig
