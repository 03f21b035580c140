"""Whether to serve what a run returned: its retriever beside BM25 and the start encoder."""

from typing import TYPE_CHECKING, Literal

from sentemb_core.formats import counted, with_interval
from sentemb_core.types import ArtifactRef, SearchTask, Value
from tasks.artifacts import RunResult, artifact_path
from tasks.retriever import choice_of

if TYPE_CHECKING:
    import numpy as np

    from sentemb_core.evaluation.bootstrap import Difference
    from sentemb_core.evaluation.validation_scores import Direction

DEPTH = 10
"""MRR@10 compares retrievers, as in their choice."""

Answer = Literal["serve", "not better", "worse", "words are enough", "start is enough"]


class Comparison(Value):
    """MRR@10 of a baseline on the test split, and the retriever's difference from it."""

    baseline: str
    mrr: float
    gain: float
    low: float
    high: float
    below: bool
    """Whether the retriever is significantly below it in a direction."""


class Verdict(Value):
    """What to do with the retriever of a run, and why."""

    answer: Answer
    label: str
    mrr: float
    queries: int
    comparisons: list[Comparison]

    @property
    def serve(self) -> bool:
        return self.answer == "serve"

    @property
    def text(self) -> str:
        """The verdict in words, for people who do not know the metric's name."""
        heads: dict[Answer, str] = {
            "serve": "Serve it.",
            "not better": "Do not serve it: it is not measurably better than what you have.",
            "worse": "Do not serve it: it is measurably worse.",
            "words are enough": "Serve no model: plain word search (BM25) is as good.",
            "start is enough": "Serve the start encoder as it is: nothing was measurably better.",
        }
        beside = " and ".join(
            f"{with_interval(each.low, each.gain, each.high)} from {each.baseline} ({each.mrr:.3f})"
            for each in self.comparisons
        )
        return (
            f"{heads[self.answer]} On {counted(self.queries, 'query')} of the test split, which "
            f"decided nothing, the retriever ({self.label}) has MRR@{DEPTH} {self.mrr:.3f}: "
            f"{beside}."
        )


def verdict_on(training: RunResult, task: SearchTask | None) -> Verdict:
    """Return the verdict on the retriever of a run, from the test split."""
    assert training.retriever, "the run returns a retriever"
    label = choice_of(training.retriever.choice).label
    own = values_of(training.retriever.scores, task)
    baselines = {"BM25": training.bm25, "the start encoder": training.rows[0].scores}
    comparisons = [
        compared(name, own, values_of(scores, task), same=label == chosen)
        for (name, scores), chosen in zip(baselines.items(), ("BM25", "start"), strict=True)
    ]
    return Verdict(
        answer=answer_of(label, comparisons),
        label=label,
        mrr=mean_of(own),
        queries=sum(map(len, own)),
        comparisons=comparisons,
    )


def answer_of(label: str, comparisons: list[Comparison]) -> Answer:
    """Return what to do with a chosen retriever."""
    if any(each.below for each in comparisons):
        return "worse"
    if label == "BM25":
        return "words are enough"
    if label == "start":
        return "start is enough"
    return "serve" if all(each.low > 0 for each in comparisons[:1]) else "not better"


def compared(
    baseline: str, own: "list[np.ndarray]", other: "list[np.ndarray]", *, same: bool
) -> Comparison:
    """Return the retriever's difference from a baseline; `same`: it is this baseline."""
    if same:
        return Comparison(
            baseline=baseline, mrr=mean_of(other), gain=0.0, low=0.0, high=0.0, below=False
        )
    gain = difference(own, other)
    ways = [difference([mine], [theirs]) for mine, theirs in zip(own, other, strict=True)]
    return Comparison(
        baseline=baseline,
        mrr=mean_of(other),
        gain=gain.mean,
        low=gain.low,
        high=gain.high,
        below=any(way.high < 0 for way in ways),
    )


def difference(own: "list[np.ndarray]", other: "list[np.ndarray]") -> "Difference":
    """Return the paired difference over the queries of all directions."""
    import numpy as np

    from sentemb_core.evaluation.bootstrap import paired_difference

    return paired_difference(np.concatenate(own), np.concatenate(other), 0)


def values_of(scores: ArtifactRef, task: SearchTask | None) -> "list[np.ndarray]":
    """Return the reciprocal ranks on the test split, of each direction that a task counts."""
    import numpy as np

    from sentemb_core.evaluation.validation_scores import read_ranks
    from sentemb_core.retriever.choice import directions_of

    directions: list[Direction] = directions_of(task)
    ranks = [read_ranks(artifact_path(scores), "test", way) for way in directions]
    return [np.where(each <= DEPTH, 1 / each, 0.0) for each in ranks]


def mean_of(values: "list[np.ndarray]") -> float:
    """Return the mean over the queries of all directions."""
    return float(sum(each.sum() for each in values) / sum(map(len, values)))
