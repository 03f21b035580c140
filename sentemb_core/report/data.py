"""The data of a run's report, as plain JSON values.

`RunReport` makes every text printable, and turns numbers that are not finite into None (not
measured). The page and report.json rely on both.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, model_validator

from sentemb_core.corpus.validation_pool import Split
from sentemb_core.evaluation.round_values import Diagnostics
from sentemb_core.evaluation.validation_scores import Scores
from sentemb_core.types import Json, Positives, StageTiming, Value

CUTOFFS = (1, 5, 10, 20)
"""Values of k of Recall@k in the tables."""

CUTOFF = 5
"""The k of the deciding metric (validation split, forward)."""

READABLE = (6, 14)
"""Fewest and most sentences of the document that is shown."""

LINEAR_LOSS = 0.1
"""Below this, a loss is drawn linearly: a training that memorises its pairs reaches zero."""

SMOOTHED = 0.05
"""Share of a training's steps in the running mean. Without it lines hide each other, and with .02
the lines of rounds and controls still do."""

# C0 and C1 controls, bidirectional embeddings, overrides and isolates (they reorder the text
# around them), and lone surrogates (UTF-8 cannot carry them).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return the text with U+FFFD for every character that could harm a page or a file."""
    return _UNPRINTABLE.sub("\ufffd", text)


def cleaned(value: Any) -> Any:
    """Return a value with printable texts, and with None for numbers that are not finite."""
    match value:
        case BaseModel():
            return cleaned(value.model_dump())
        case str():
            return printable(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {cleaned(name): cleaned(one) for name, one in value.items()}
        case list() | tuple():
            return [cleaned(one) for one in value]
        case _:
            return value


Direction = Literal["forward", "backward"]
"""`forward`: a document is the query, its counterpart the answer; `backward`: the reverse."""

Kind = Literal["start", "trained", "round", "fine-tuned", "mapped", "control", "fixed", "retriever"]
"""How a system of a run was made; `fixed` (BM25, a random encoder) is not trained."""


class Curve(Value):
    """The steps of one training; gradient norms are those before clipping."""

    step: list[int]
    loss: list[float | None]
    learning_rate: list[float | None]
    gradient_norm: list[float | None]
    pairs: NonNegativeInt = Field(description="All pairs of its batches.")


class RoundRow(Value):
    """One system of the run, its scores, and the annotation and training behind it.

    best: the best encoder that could be returned; a retriever was offered it.
    returned: what the run returned.
    low, high: bootstrap interval of the deciding metric.
    seconds: wall time of the round.
    positives: kind of its pairs, as in `AnnotationConfig`.
    numbers: of the annotation, by name (`annotation_numbers`).
    cluster_sizes: number of clusters by their size.
    """

    label: str
    kind: Kind = "round"
    best: bool = False
    returned: bool = False
    scores: Scores = Field(default={})
    low: float | None = None
    high: float | None = None
    seconds: float | None = None
    positives: Positives = "cluster"
    numbers: Json = Field(default={})
    cluster_sizes: dict[int, int] = Field(default={})
    diagnostics: Diagnostics | None = None
    curve: Curve | None = None

    def recall(self, split: Split, direction: Direction, k: int = CUTOFF) -> float | None:
        """Return Recall@k in [0, 1]; None if the split was not scored."""
        if split not in self.scores:
            return None
        scores = self.scores[split]
        forward, backward = scores.document_to_counterpart, scores.counterpart_to_document
        return getattr(forward if direction == "forward" else backward, f"recall_at_{k}")


class DocumentClusters(Value):
    """One document, and the cluster of each sentence under each encoder."""

    name: str
    counterpart: str | None = None
    sentences: list[str]
    clusters: dict[str, list[NonNegativeInt]] = Field(description="Encoder -> clusters.")


class Projection(Value):
    """Sampled sentences on the axes that all encoders share (`collect.common_axes`).

    Sentences of one document have the same number in `group`.
    """

    label: str
    x: list[FiniteFloat]
    y: list[FiniteFloat]
    group: list[int]


class QuarantineRow(Value):
    """A refused row of the source (schemas.QUARANTINE)."""

    where: str
    row: int
    reason: str
    excerpt: str


class Refusals(Value):
    """The rows that a reader refused.

    read: rows of the source.
    counts: refused rows by reason code.
    rows: the first refused rows.
    file: the table of all refused rows, if there are any.
    """

    read: NonNegativeInt = 0
    counts: dict[str, NonNegativeInt] = Field(default={})
    rows: list[QuarantineRow] = Field(default=[])
    file: str = ""


class LostQuery(Value):
    """A query whose answer has a bad rank, and the candidate that was ranked first."""

    query: str
    wanted: str
    found: str
    rank: int = Field(ge=1, description="Rank of the wanted candidate, counted from 1.")


class Point(Value):
    """The score of one system on one task; it is drawn times 100."""

    panel: str
    task: str
    system: str
    fixed: bool
    value: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


class Evaluation(Value):
    """Scores of the run's encoder and of other systems in a benchmark, a row for each task."""

    run: str = Field(description="Name of the benchmark's run.")
    page: str = Field(description="The benchmark's page, with all metrics and diagnostics.")
    systems: list[str] = Field(description="The run's encoder first.")
    fixed: list[str] = Field(description="The systems that no training changes.")
    rows: list[list[str]] = Field(description="Task, main metric, then a cell for each system.")
    points: list[Point] = Field(default=[], description="The same for the figure.")


class ServedRow(Value):
    """MRR@10 of one system on the test split, and what the run's retriever has more than it."""

    name: str
    to_counterparts: float | None
    to_documents: float | None
    gain: float | None = None
    low: float | None = None
    high: float | None = None


class CandidateRow(Value):
    """A retriever that the run might have returned, on the validation split.

    to_best, low, high: difference of its MRR@10 from the best one's, with its interval.
    why_not: empty for the chosen one.
    """

    label: str
    parts: list[str]
    width: NonNegativeInt = Field(description="Dimensions of a document's vector.")
    mrr: float | None
    to_best: float | None
    low: float | None
    high: float | None
    why_not: str = ""


class RetrieverReport(Value):
    """What the first screen of a run's page says, and how its retriever was chosen."""

    serve: bool
    answer: str = Field(description="Whether to serve it, in a sentence.")
    shares: str = Field(description="How much better it is, as shares of searches.")
    label: str = Field(description="Name of the returned retriever.")
    directions: tuple[str, str] = Field(description="From query to candidate, and back.")
    systems: list[ServedRow] = Field(description="BM25, the start encoder, the retriever.")
    commands: list[str] = Field(description="The commands that index a corpus and search it.")
    trust: list[str] = Field(description="How far the answer can be trusted.")
    queries: NonNegativeInt = Field(description="Queries of the validation split.")
    candidates: list[CandidateRow]
    encoders: list[CandidateRow] = Field(
        default=[], description="The encoders that were compared first, each beside words."
    )


class RunReport(Value):
    """Everything that the page of a run shows."""

    title: str
    answer: str = Field(default="", description="Whether to use the result, in a sentence.")
    serve: bool = Field(default=True, description="Whether the answer is yes.")
    verdict: str = Field(description="The result in one to three sentences.")
    retriever: RetrieverReport | None = Field(
        default=None, description="The retriever that the run returned, if it returned one."
    )
    registry: str = Field(default="", description="Outcome of the gate, and the model in service.")
    use: str = Field(default="", description="The command to search with the encoder.")
    notes: list[str] = Field(
        default=[], description="What a reader must know to understand the verdict."
    )
    command: str = Field(description="The command that repeats this run.")
    facts: dict[str, str] = Field(default={}, description="Digests, versions, commit, seed.")
    settings: dict[str, str] = Field(
        default={}, description="Dotted path -> value of every setting."
    )

    query: str = Field(
        default="document", description="The queries; `first half` for held-out halves."
    )
    candidate: str = Field(default="title", description="The candidates.")
    candidates: int | None = Field(default=None, description="Number of candidates.")
    queries: dict[str, NonNegativeInt] = Field(
        default={}, description="Split -> number of queries."
    )
    in_other_documents: int = Field(
        default=0, description="Candidates that are a sentence of another document, too."
    )
    rounds: list[RoundRow] = Field(default=[])
    fixed: list[RoundRow] = Field(default=[])
    served: RoundRow | None = Field(default=None, description="The retriever, if one is returned.")

    document: DocumentClusters | None = None
    projections: list[Projection] = Field(default=[])
    lost_queries: list[LostQuery] = Field(default=[])
    corpus: dict[str, int | str] = Field(default={}, description="Counts of the reader.")
    quarantine: Refusals = Field(default=Refusals(), description="Refused rows of the corpus.")
    labels: Refusals | None = Field(
        default=None, description="Refused rows of the file of labels, if the run has one."
    )
    timings: list[StageTiming] = Field(default=[])
    evaluation: Evaluation | None = None
    evaluate: list[str] = Field(default=[], description="The commands that add an evaluation.")

    @model_validator(mode="before")
    @classmethod
    def _clean(cls, values: Any) -> Any:
        return cleaned(values)

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
        """Name of the metric at the top of the page, on the split of the verdict."""
        return f"R@{CUTOFF}, {self.forward}, test split"


def measured(rows: Iterable[RoundRow], name: str) -> list[RoundRow]:
    """The rows with this number of the annotation."""
    return [row for row in rows if row.numbers.get(name) is not None]


def seconds_by_stage(stages: Sequence[StageTiming]) -> dict[str, float]:
    """Sum of the seconds of every stage, slowest first."""
    totals: dict[str, float] = {}
    for timing in stages:
        totals[timing.stage] = totals.get(timing.stage, 0.0) + timing.seconds
    return dict(sorted(totals.items(), key=lambda item: -item[1]))
