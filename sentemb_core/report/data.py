"""What a report shows: plain JSON values that the stages of one run left behind.

Texts are made printable and numbers that are not finite become "not measured" at this border, so
that neither the page nor report.json needs to think of them.
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
"""The k of Recall@k in the tables."""

CUTOFF = 5
"""The k of the one that decides (validation, forward)."""

# C0 and C1 controls, bidirectional embeddings, overrides and isolates (they reorder the text
# around them), and lone surrogates (UTF-8 cannot carry them).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with every character that could harm a page or a file as U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _printable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


Text = Annotated[str, BeforeValidator(_printable)]
Number = Annotated[float | None, AfterValidator(_finite)]
Recalls = dict[int, Number]
"""Recall@k by k; a missing k was not measured."""


class Shown(BaseModel):
    """Frozen; a misspelt field is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _require_equal_lengths(owner: str, **columns: Sequence[Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{owner}: columns must have one length, found {lengths}")


class Fact(Shown):
    """One line of the reproduction table: a digest, a version, a commit, a setting."""

    label: Text
    value: Text
    link: Annotated[str, Field(pattern=r"^https?://")] | None = None


class Directions(Shown):
    """Recall@k of both directions on one split, in [0, 1]."""

    forward: Recalls = Field(
        default_factory=dict, description="Document looks for its counterpart."
    )
    backward: Recalls = Field(
        default_factory=dict, description="Counterpart looks for its document."
    )


class FixedRow(Shown):
    """A row that no training moves: BM25, the start encoder, a random encoder."""

    label: Text
    validation: Directions = Directions()
    test: Directions = Directions()


Kind = Literal["start", "trained", "round", "fine-tuned", "mapped", "control"]
"""How an encoder of a run came to be."""


class RoundRow(Shown):
    """One encoder of the run and what was found with it."""

    label: Text
    kind: Kind = "round"
    best: bool = Field(default=False, description="The encoder that the run returned.")
    validation: Directions = Directions()
    test: Directions = Directions()
    low: Number = Field(
        default=None, description="Bootstrap band of the deciding metric, lower end."
    )
    high: Number = Field(
        default=None, description="Bootstrap band of the deciding metric, upper end."
    )
    positives: Positives = Field(
        default="cluster", description="What its pairs are, as in `AnnotationConfig`."
    )
    kept_share: Number = Field(
        default=None, description="Of all pairs inside documents, in [0, 1]."
    )
    clusters_per_document: Number = None
    churn: Number = Field(
        default=None, description="Adjusted Rand index to the last round's clusters."
    )
    new_share: Number = Field(
        default=None, description="Of the pairs, those that the last round's annotation had not."
    )
    gone_share: Number = Field(
        default=None, description="Of the last round's pairs, those that are none any more."
    )
    giving_share: Number = Field(
        default=None, description="Of the documents that teach, those that give a pair."
    )
    pairs: int | None = None
    adjacent_share: Number = Field(default=None, description="Of the pairs, neighbours.")
    related_share: Number = Field(
        default=None,
        description="Of a sentence's pairs in its document, neighbours aside, without labels.",
    )
    drift: Number = Field(
        default=None, description="Of the pairs, those that float32 finds otherwise."
    )
    lexical_overlap: Number = Field(
        default=None, description="Mean Jaccard index of the pairs' words."
    )
    alignment: Number = None
    uniformity: Number = None
    effective_rank: Number = None
    seconds: Number = Field(default=None, description="Wall time of the round.")


class Place(Shown):
    """Where an encoder's vectors lie in the alignment-uniformity plane (Wang and Isola, 2020)."""

    alignment: FiniteFloat
    uniformity: FiniteFloat


class Move(Shown):
    """One round on its own pairs: under the encoder that found them, and the one that learnt."""

    label: Text
    before: Place
    after: Place


class Labelling(Shown):
    """Cluster label of every sentence of one document, as one encoder saw it."""

    label: Text
    clusters: list[NonNegativeInt]


READABLE = (6, 14)
"""Sentences of the document shown: enough to cluster, few enough to read."""


class DocumentClusters(Shown):
    """One document before and after."""

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
    """How many clusters have each size."""

    label: Text
    sizes: list[int]
    counts: list[int]

    @model_validator(mode="after")
    def _columns_fit(self) -> "ClusterSizes":
        _require_equal_lengths(self.label, sizes=self.sizes, counts=self.counts)
        return self


class Similarities(Shown):
    """Histograms of the similarity of positives and of negatives on common bins."""

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
    """Sampled pairs: word overlap against cosine."""

    label: Text
    jaccard: list[FiniteFloat]
    cosine: list[FiniteFloat]

    @model_validator(mode="after")
    def _columns_fit(self) -> "PairPoints":
        _require_equal_lengths(self.label, jaccard=self.jaccard, cosine=self.cosine)
        return self


class Projection(Shown):
    """Sampled sentences on the axes that all rounds share (projection.py)."""

    label: Text
    x: list[FiniteFloat]
    y: list[FiniteFloat]
    group: list[int] = Field(description="Sentences of one document carry one number.")

    @model_validator(mode="after")
    def _columns_fit(self) -> "Projection":
        _require_equal_lengths(self.label, x=self.x, y=self.y, group=self.group)
        return self


class Curve(Shown):
    """One training, step by step."""

    label: Text
    step: list[int]
    loss: list[Number]
    learning_rate: list[Number]
    gradient_norm: list[Number] = Field(description="Before it was clipped.")
    pairs: NonNegativeInt = Field(description="All that it was shown.")

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
    """What a source's reader refused."""

    read: NonNegativeInt = Field(default=0, description="Rows of the source.")
    counts: dict[Text, NonNegativeInt] = Field(
        default_factory=dict, description="Refused rows by reason code."
    )
    rows: list[QuarantineRow] = Field(
        default_factory=list, description="The refused rows that come first in the source."
    )
    file: Text = Field(default="", description="The table with all of them, if there are any.")


class StageTiming(Shown):
    """One stage of the run: `hit` when the store had its result.

    `seconds` is what its body took, in this run or, for a hit, when it was computed.
    """

    stage: Text
    round: Text = ""
    seconds: Annotated[float, Field(ge=0)]
    hit: bool


class SentencePair(Shown):
    """Two sentences that were taken as meaning the same, with their similarity."""

    left: Text
    right: Text
    cosine: Number


class LostQuery(Shown):
    """A query whose answer came late."""

    query: Text
    wanted: Text
    found: Text = Field(description="What was ranked first in its place.")
    rank: int = Field(ge=1, description="Of the wanted candidate, counted from 1.")


class Point(Shown):
    """One system on one task; shares and correlations, drawn times 100."""

    panel: Text
    task: Text
    system: Text
    fixed: bool
    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class Evaluation(Shown):
    """What a benchmark says of the run's encoder, beside other systems, a line for each task."""

    run: Text = Field(description="Of the benchmark.")
    page: Text = Field(description="Its own page, with all measures, diagnostics and pictures.")
    systems: list[Text] = Field(description="The run's own encoder first.")
    fixed: list[Text] = Field(description="Those of them that no training moves.")
    rows: list[list[Text]] = Field(description="Task, main measure, then a cell for each system.")
    points: list[Point] = Field(default=[], description="The same for the picture.")


class RunReport(Shown):
    """One run from one start encoder: everything its page shows."""

    title: Text
    verdict: Text = Field(description="What was gained, in one to three sentences.")
    registry: Text = Field(default="", description="What the gate said, and what serves now.")
    use: Text = Field(default="", description="What to type to search with the encoder.")
    notes: list[Text] = Field(
        default_factory=list, description="What a reader must know beside the verdict."
    )
    command: Text = Field(description="Repeats this run.")
    facts: list[Fact] = []
    settings: dict[Text, Text] = Field(
        default_factory=dict, description="Every setting of the run by its dotted path."
    )

    query: Text = Field(
        default="document", description="What looks; `first half` for held-out halves."
    )
    candidate: Text = Field(default="title", description="What is sought.")
    candidates: int | None = Field(default=None, description="Size of the fixed candidate pool.")
    queries: dict[Text, NonNegativeInt] = Field(
        default_factory=dict, description="How many ask, by split."
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
    quarantine: Refusals = Field(default=Refusals(), description="Of the corpus.")
    labels: Refusals | None = Field(
        default=None, description="Of the file of labels, if the run has one."
    )
    timings: list[StageTiming] = []
    evaluation: Evaluation | None = None
    evaluate: list[Text] = Field(default=[], description="What to type to have an evaluation here.")

    @property
    def forward(self) -> str:
        """The direction that decides, in words."""
        return f"{self.query} \N{RIGHTWARDS ARROW} {self.candidate}"

    @property
    def backward(self) -> str:
        """The other direction, in words."""
        return f"{self.candidate} \N{RIGHTWARDS ARROW} {self.query}"

    @property
    def metric(self) -> str:
        """The number that decides the stop and the best round, in words."""
        return f"R@{CUTOFF}, {self.forward}, validation split"
