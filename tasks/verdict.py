"""What a run returned, and whether to serve it: one answer for page, card, console and registry.

A retriever is compared with BM25 and with the start encoder, an encoder alone with its start.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sentemb_core.formats import counted, percent, with_interval
from sentemb_core.types import ArtifactRef, SearchTask, Value
from tasks.artifacts import RunResult, artifact_path
from tasks.retriever import choice_of
from tasks.validate import scores_of

if TYPE_CHECKING:
    import numpy as np

    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.bootstrap import Difference
    from sentemb_core.retriever.choice import Units
    from tasks.gate import GateOutcome

DEPTH = 10
"""MRR@10 compares retrievers, as in their choice."""

Answer = Literal[
    "serve", "not promoted", "not better", "worse", "words are enough", "start is enough"
]

HEADS: dict[Answer, str] = {
    "serve": "Serve it: it finds more than word search (BM25).",
    "not promoted": "Do not serve it yet: it finds more than word search (BM25), but the gate did "
    "not promote it.",
    "not better": "Do not serve it: it is not measurably better than word search (BM25).",
    "worse": "Do not serve it: it is measurably worse.",
    "words are enough": "Do not serve a model: plain word search (BM25) is as good.",
    "start is enough": "Serve the start encoder as it is: nothing was measurably better.",
}

ENCODER_HEADS: dict[Answer, str] = {
    "serve": "Use it: it finds more than the start encoder.",
    "not better": "Do not use it: it is not measurably better than the start encoder.",
    "worse": "Do not use it: it is measurably worse than the start encoder.",
    "start is enough": "Use the start encoder as it is: no training improved it.",
}
"""The same for a run that returns an encoder alone."""


CHAMPION_ANYWAY = (
    "It is the champion all the same: the gate compares it on other queries, with the champion "
    "before it or the start encoder."
)


class System(Value):
    """One system on the test split: MRR@10 in both directions, and over those that count.

    first: share of the queries of the directions that count with the right answer at rank 1.
    """

    name: str
    to_counterparts: float
    to_documents: float
    mrr: float
    first: float

    @property
    def called(self) -> str:
        """The name in a sentence."""
        return self.name if self.name == "BM25" else f"the {self.name}"


class Comparison(Value):
    """A baseline, and the difference of the run's retriever from it."""

    baseline: System
    gain: float
    low: float
    high: float
    below: bool
    """Whether the retriever is significantly below it in a direction."""


class Verdict(Value):
    """What to do with the retriever of a run, and why.

    queries: counterparts that are looked for, or that look for their documents.
    both: whether both directions count.
    """

    answer: Answer
    own: System
    queries: int
    both: bool
    comparisons: list[Comparison]
    champion: bool | None = None
    """Whether the gate made it the champion; None if no gate compared it."""

    @property
    def serve(self) -> bool:
        return self.answer in ("serve", "start is enough")

    @property
    def head(self) -> str:
        """The answer in a sentence, for people who do not know the metric's name."""
        return reconciled(HEADS[self.answer], champion=self.champion)

    @property
    def reason(self) -> str:
        """The numbers behind the answer."""
        beside = " and ".join(
            f"{with_interval(each.low, each.gain, each.high)} from {each.baseline.called} "
            f"({each.baseline.mrr:.3f})"
            for each in self.comparisons
        )
        ways = " over both directions" if self.both else ""
        return (
            f"On {counted(self.queries, 'query')} of the test split, which decided nothing, "
            f"{self.own.called} has MRR@{DEPTH} {self.own.mrr:.3f}{ways}: {beside}."
        )

    @property
    def shares(self) -> str:
        """How much better it is, as numbers of searches."""
        others = " and ".join(
            f"{percent(each.baseline.first)} with {each.baseline.called}"
            for each in self.comparisons
        )
        return f"The right answer comes first in {percent(self.own.first)} of searches, {others}."

    @property
    def text(self) -> str:
        return f"{self.head} {self.reason}"


def answer_on(
    training: RunResult, task: SearchTask | None = None, gate: "GateOutcome | None" = None
) -> tuple[Answer, str]:
    """Return whether to use what a run returned, as a code and as a sentence."""
    if training.retriever:
        verdict = verdict_on(training, task, gate)
        return verdict.answer, verdict.head
    answer = encoder_answer(training)
    return answer, reconciled(ENCODER_HEADS[answer], champion=is_champion(gate))


def is_champion(gate: "GateOutcome | None") -> bool | None:
    """Return whether the gate made the model of a run the champion; None without a gate."""
    return gate and gate.alias == "champion"


def reconciled(head: str, *, champion: bool | None) -> str:
    """Return the answer of the test split, changed where the gate decided otherwise.

    `champion`: the gate's decision; None if no gate compared it.
    """
    if champion and head.startswith("Do not"):
        return f"{head} {CHAMPION_ANYWAY}"
    return HEADS["not promoted"] if champion is False and head == HEADS["serve"] else head


def encoder_answer(training: RunResult) -> Answer:
    """Return whether the returned encoder finds more than the start on the test split (R@5)."""
    start, own = training.rows[0], training.rows[training.best]
    if own.encoder == start.encoder:
        return "start is enough"
    gain = paired(hits_at_5(own.scores), hits_at_5(start.scores))
    if gain.high < 0:
        return "worse"
    return "serve" if gain.low > 0 else "not better"


def returned_name(training: RunResult) -> str:
    """Return the name of what a run returned, as tables, page, card and registry show it."""
    if training.retriever:
        return f"retriever: {choice_of(training.retriever.choice).label}"
    return training.rows[training.best].label


def served_scores(training: RunResult) -> ArtifactRef:
    """Return the scores of what a run returned."""
    if training.retriever:
        return training.retriever.scores
    return training.rows[training.best].scores


def hits_at_5(scores: ArtifactRef) -> "np.ndarray":
    """Return 1 for every test document with its counterpart among the first five, else 0."""
    from sentemb_core.evaluation.validation_scores import read_hits

    return read_hits(artifact_path(scores), "test")


def verdict_on(
    training: RunResult, task: SearchTask | None, gate: "GateOutcome | None" = None
) -> Verdict:
    """Return the verdict on the retriever of a run, from the test split and the gate."""
    assert training.retriever, "the run returns a retriever"
    label = choice_of(training.retriever.choice).label
    own = training.retriever.scores
    baselines = {"BM25": training.bm25, "start encoder": training.rows[0].scores}
    comparisons = [
        compared(name, own, scores, training, task, same=label == chosen)
        for (name, scores), chosen in zip(baselines.items(), ("BM25", "start"), strict=True)
    ]
    units = units_of(training, task)
    return Verdict(
        answer=answer_of(label, comparisons, promoted=is_champion(gate) is not False),
        own=system(f"retriever ({label})", own, task),
        queries=len(set(units[0].tolist())),
        both=len(units) == 2,
        comparisons=comparisons,
        champion=is_champion(gate),
    )


def answer_of(label: str, comparisons: list[Comparison], *, promoted: bool = True) -> Answer:
    """Return what to do with a chosen retriever."""
    if any(each.below for each in comparisons):
        return "worse"
    if label == "BM25":
        return "words are enough"
    if label == "start":
        return "start is enough"
    if comparisons[0].low <= 0:
        return "not better"
    return "serve" if promoted else "not promoted"


def compared(
    name: str,
    own: ArtifactRef,
    other: ArtifactRef,
    training: RunResult,
    task: SearchTask | None,
    *,
    same: bool = False,
) -> Comparison:
    """Return the difference of scores from those of a baseline; `same`: both are one system."""
    import numpy as np

    from sentemb_core.evaluation.bootstrap import by_unit

    baseline = system(name, other, task)
    if same:
        return Comparison(baseline=baseline, gain=0.0, low=0.0, high=0.0, below=False)
    values, others = values_of(own, task), values_of(other, task)
    units = units_of(training, task)
    joined = (by_unit(np.concatenate(each), np.concatenate(units)) for each in (values, others))
    gain = paired(*joined)
    ways = [
        paired(by_unit(mine, of_way), by_unit(theirs, of_way))
        for mine, theirs, of_way in zip(values, others, units, strict=True)
    ]
    return Comparison(
        baseline=baseline,
        gain=gain.mean,
        low=gain.low,
        high=gain.high,
        below=any(way.high < 0 for way in ways),
    )


def system(name: str, scores: ArtifactRef, task: SearchTask | None) -> System:
    """Return what a system scores on the test split."""
    values = values_of(scores, task)
    test = scores_of(scores)["test"]
    queries = sum(map(len, values))
    return System(
        name=name,
        to_counterparts=test.document_to_counterpart.mrr_at_10,
        to_documents=test.counterpart_to_document.mrr_at_10,
        mrr=float(sum(each.sum() for each in values)) / queries,
        first=sum(int((each == 1).sum()) for each in values) / queries,
    )


def paired(own: "np.ndarray", other: "np.ndarray") -> "Difference":
    """Return the paired difference of values in float64, [queries] each."""
    return _paired(own.tobytes(), other.tobytes())


@lru_cache  # a run asks for the same comparison up to seven times, a tenth of a second each
def _paired(own: bytes, other: bytes) -> "Difference":
    import numpy as np

    from sentemb_core.evaluation.bootstrap import paired_difference

    return paired_difference(np.frombuffer(own), np.frombuffer(other), 0)


def values_of(scores: ArtifactRef, task: SearchTask | None) -> "list[np.ndarray]":
    """Return the reciprocal ranks on the test split, of each direction that a task counts."""
    import numpy as np

    from sentemb_core.evaluation.validation_scores import read_ranks
    from sentemb_core.retriever.choice import directions_of

    ranks = [read_ranks(artifact_path(scores), "test", way) for way in directions_of(task)]
    return [np.where(each <= DEPTH, 1 / each, 0.0) for each in ranks]


def units_of(training: RunResult, task: SearchTask | None) -> "list[Units]":
    """Return the counterpart of each query of the test split, for each direction that counts."""
    from sentemb_core.retriever.choice import direction_units

    return direction_units(pool_of(training), "test", task)


def pool_of(training: RunResult) -> "ValidationPool":
    from sentemb_core.corpus.validation_pool import ValidationPool

    return ValidationPool.open(artifact_path(training.texts.validation_pool))
