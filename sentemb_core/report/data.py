"""The data of a run's report, as plain JSON values.

Here texts become printable, and numbers that are not finite become None (not measured). The page
and report.json rely on both.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    model_validator,
)

from sentemb_core.types import Positives

CUTOFFS = (1, 5, 10, 20)
"""Values of k of Recall@k in the tables."""

CUTOFF = 5
"""The k of the deciding metric (validation split, forward)."""

# C0 and C1 controls, bidirectional embeddings, overrides and isolates (they reorder the text
# around them), and lone surrogates (UTF-8 cannot carry them).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return the text with U+FFFD for every character that could harm a page or a file."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _printable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


Text = Annotated[str, BeforeValidator(_printable)]
Number = Annotated[float | None, AfterValidator(_finite)]
Recalls = dict[int, Number]
"""k -> Recall@k; a missing k was not measured."""


class Shown(BaseModel):
    """Frozen; a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _require_equal_lengths(owner: str, **columns: Sequence[Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{owner}: columns must have one length, found {lengths}")


class Fact(Shown):
    """One line of the reproduction table: a digest, a version, a commit or a setting."""

    label: Text
    value: Text
    link: Annotated[str, Field(pattern=r"^https?://")] | None = None


class Directions(Shown):
    """Recall@k of both directions on one split, in [0, 1]."""

    forward: Recalls = Field(
        default_factory=dict, description="A document is the query, its counterpart the answer."
    )
    backward: Recalls = Field(
        default_factory=dict, description="A counterpart is the query, its document the answer."
    )


class FixedRow(Shown):
    """A row that no training changes: BM25, the start encoder, a random encoder."""

    label: Text
    validation: Directions = Directions()
    test: Directions = Directions()


Kind = Literal["start", "trained", "round", "fine-tuned", "mapped", "control"]
"""How an encoder of a run was made."""


class RoundRow(Shown):
    """One encoder of the run, its scores, and the annotation it was trained on."""

    label: Text
    kind: Kind = "round"
    best: bool = Field(default=False, description="The encoder that the run returned.")
    validation: Directions = Directions()
    test: Directions = Directions()
    low: Number = Field(
        default=None, description="Lower end of the bootstrap interval of the deciding metric."
    )
    high: Number = Field(
        default=None, description="Upper end of the bootstrap interval of the deciding metric."
    )
    positives: Positives = Field(
        default="cluster", description="Kind of its pairs, as in `AnnotationConfig`."
    )
    kept_share: Number = Field(default=None, description="Share of all pairs inside documents.")
    clusters_per_document: Number = None
    churn: Number = Field(
        default=None, description="Adjusted Rand index to the clusters of the last round."
    )
    new_share: Number = Field(
        default=None, description="Share of the pairs that the last round did not have."
    )
    gone_share: Number = Field(
        default=None, description="Share of the last round's pairs that are not pairs now."
    )
    giving_share: Number = Field(
        default=None, description="Share of the training documents that give a pair."
    )
    pairs: int | None = None
    adjacent_share: Number = Field(default=None, description="Adjacent pairs as a share of all.")
    related_share: Number = Field(
        default=None,
        description="Share of the distant pairs inside documents, estimated without labels.",
    )
    drift: Number = Field(default=None, description="Share of the pairs that float32 changes.")
    lexical_overlap: Number = Field(
        default=None, description="Mean Jaccard index of the words of pairs."
    )
    alignment: Number = None
    uniformity: Number = None
    effective_rank: Number = None
    seconds: Number = Field(default=None, description="Wall time of the round.")


class Place(Shown):
    """A point in the alignment-uniformity plane (Wang and Isola, 2020)."""

    alignment: FiniteFloat
    uniformity: FiniteFloat


class Move(Shown):
    """The pairs of a round under the encoder that found them, and under the trained encoder."""

    label: Text
    before: Place
    after: Place


class Labelling(Shown):
    """Cluster label of every sentence of one document under one encoder."""

    label: Text
    clusters: list[NonNegativeInt]


READABLE = (6, 14)
"""Fewest and most sentences of the document that is shown."""


class DocumentClusters(Shown):
    """The clusters of one document under each encoder."""

    name: Text
    counterpart: Text | None = None
    sentences: list[Text]
    rounds: list[Labelling]

    @model_validator(mode="after")
    def _every_sentence_is_labelled(self) -> "DocumentClusters":
        for labelling in self.rounds:
            _require_equal_lengths(
                labelling.label, sentences=self.sentences, clusters=labelling.clusters
            )
        return self


class ClusterSizes(Shown):
    """Histogram of cluster sizes."""

    label: Text
    sizes: list[int]
    counts: list[int]

    @model_validator(mode="after")
    def _columns_fit(self) -> "ClusterSizes":
        _require_equal_lengths(self.label, sizes=self.sizes, counts=self.counts)
        return self


class Similarities(Shown):
    """Histograms of the similarity of positives and of negatives with common bins."""

    label: Text
    edges: list[FiniteFloat] = Field(description="One more than there are bins, increasing.")
    positives: list[int]
    negatives: list[int]

    @model_validator(mode="after")
    def _columns_fit(self) -> "Similarities":
        _require_equal_lengths(
            self.label, bins=self.edges[1:], positives=self.positives, negatives=self.negatives
        )
        return self


class PairPoints(Shown):
    """Word overlap and cosine of sampled pairs."""

    label: Text
    jaccard: list[FiniteFloat]
    cosine: list[FiniteFloat]

    @model_validator(mode="after")
    def _columns_fit(self) -> "PairPoints":
        _require_equal_lengths(self.label, jaccard=self.jaccard, cosine=self.cosine)
        return self


class Projection(Shown):
    """Sampled sentences on the axes that all rounds share (`collect.common_axes`)."""

    label: Text
    x: list[FiniteFloat]
    y: list[FiniteFloat]
    group: list[int] = Field(description="The same number for the sentences of a document.")

    @model_validator(mode="after")
    def _columns_fit(self) -> "Projection":
        _require_equal_lengths(self.label, x=self.x, y=self.y, group=self.group)
        return self


class Curve(Shown):
    """The steps of one training."""

    label: Text
    step: list[int]
    loss: list[Number]
    learning_rate: list[Number]
    gradient_norm: list[Number] = Field(description="Before clipping.")
    pairs: NonNegativeInt = Field(description="All pairs of its batches.")

    @model_validator(mode="after")
    def _columns_fit(self) -> "Curve":
        _require_equal_lengths(
            self.label,
            step=self.step,
            loss=self.loss,
            learning_rate=self.learning_rate,
            gradient_norm=self.gradient_norm,
        )
        return self


class QuarantineRow(Shown):
    """A refused row of the source (schemas.QUARANTINE)."""

    where: Text
    row: int
    reason: Text
    excerpt: Text


class Refusals(Shown):
    """The rows that a reader refused."""

    read: NonNegativeInt = Field(default=0, description="Rows of the source.")
    counts: dict[Text, NonNegativeInt] = Field(
        default_factory=dict, description="Reason code -> refused rows."
    )
    rows: list[QuarantineRow] = Field(default_factory=list, description="The first refused rows.")
    file: Text = Field(default="", description="The table of all refused rows, if there are any.")


class StageTiming(Shown):
    """One stage of the run; for a `hit`, the store had its result.

    `seconds` is the time of its computation, in this run or, for a hit, in an earlier one.
    """

    stage: Text
    round: Text = ""
    seconds: Annotated[float, Field(ge=0)]
    hit: bool


class SentencePair(Shown):
    """Two sentences of a positive pair, with their similarity."""

    left: Text
    right: Text
    cosine: Number


class LostQuery(Shown):
    """A query whose answer has a bad rank."""

    query: Text
    wanted: Text
    found: Text = Field(description="The candidate that was ranked first.")
    rank: int = Field(ge=1, description="Rank of the wanted candidate, counted from 1.")


class Point(Shown):
    """The score of one system on one task; it is drawn times 100."""

    panel: Text
    task: Text
    system: Text
    fixed: bool
    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class Evaluation(Shown):
    """Scores of the run's encoder and of other systems in a benchmark, a row for each task."""

    run: Text = Field(description="Name of the benchmark's run.")
    page: Text = Field(description="The benchmark's page, with all metrics and diagnostics.")
    systems: list[Text] = Field(description="The run's encoder first.")
    fixed: list[Text] = Field(description="The systems that no training changes.")
    rows: list[list[Text]] = Field(description="Task, main metric, then a cell for each system.")
    points: list[Point] = Field(default=[], description="The same for the figure.")


class RunReport(Shown):
    """Everything that the page of a run shows."""

    title: Text
    verdict: Text = Field(description="The result in one to three sentences.")
    registry: Text = Field(default="", description="Outcome of the gate, and the model in service.")
    use: Text = Field(default="", description="The command to search with the encoder.")
    notes: list[Text] = Field(
        default_factory=list, description="What a reader must know to understand the verdict."
    )
    command: Text = Field(description="The command that repeats this run.")
    facts: list[Fact] = []
    settings: dict[Text, Text] = Field(
        default_factory=dict, description="Dotted path -> value of every setting."
    )

    query: Text = Field(
        default="document", description="The queries; `first half` for held-out halves."
    )
    candidate: Text = Field(default="title", description="The candidates.")
    candidates: int | None = Field(default=None, description="Number of candidates.")
    queries: dict[Text, NonNegativeInt] = Field(
        default_factory=dict, description="Split -> number of queries."
    )
    in_other_documents: int = Field(
        default=0, description="Candidates that are a sentence of another document, too."
    )
    rounds: list[RoundRow] = []
    fixed: list[FixedRow] = []

    document: DocumentClusters | None = None
    cluster_sizes: list[ClusterSizes] = []
    similarities: list[Similarities] = []
    moves: list[Move] = []
    overlaps: list[PairPoints] = []
    projections: list[Projection] = []
    curves: list[Curve] = []
    best_pairs: list[SentencePair] = []
    worst_pairs: list[SentencePair] = []
    lost_queries: list[LostQuery] = []

    corpus: dict[Text, int | FiniteFloat | Text] = Field(
        default_factory=dict, description="Counts of the reader."
    )
    quarantine: Refusals = Field(default=Refusals(), description="Refused rows of the corpus.")
    labels: Refusals | None = Field(
        default=None, description="Refused rows of the file of labels, if the run has one."
    )
    timings: list[StageTiming] = []
    evaluation: Evaluation | None = None
    evaluate: list[Text] = Field(default=[], description="The commands that add an evaluation.")

    @property
    def forward(self) -> str:
        """Name of the deciding direction."""
        return f"{self.query} \N{RIGHTWARDS ARROW} {self.candidate}"

    @property
    def backward(self) -> str:
        """Name of the other direction."""
        return f"{self.candidate} \N{RIGHTWARDS ARROW} {self.query}"

    @property
    def metric(self) -> str:
        """Name of the metric that decides the stop and the best round."""
        return f"R@{CUTOFF}, {self.forward}, validation split"
