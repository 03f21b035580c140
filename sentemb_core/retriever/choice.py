"""The choice of a retriever: the cheapest of a few that is not significantly below the best.

The list is short and the weights are fixed, so that the choice itself overfits little.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64

from sentemb_core.evaluation.bootstrap import Difference, paired_difference
from sentemb_core.evaluation.metrics import reciprocal_rank
from sentemb_core.evaluation.validation_scores import PoolRanks
from sentemb_core.retriever.spec import SHARES_WITHOUT_ENCODER, RetrieverSpec, Vectors
from sentemb_core.types import Value

Task = Literal["search", "titles", "sessions", "similar"]
"""What queries are: texts that look for documents (search), documents that look for their titles,
sessions that look for an item; similar: both directions, as without a task."""

FEWEST_QUERIES = 100
"""With fewer queries nothing is chosen: the default of docs/results/retriever.md is returned."""

DEPTH = 10
"""MRR@10 decides."""

TABLE = "table"
"""Name of the corpus table among the encoders."""

START, BM25 = "start", "BM25"
"""Candidates that the chosen one must not be significantly below."""

PerQuery = Float64[np.ndarray, " queries"]


class Candidate(Value):
    """A retriever that may be returned; the folders of its spec are names of encoders."""

    label: str
    spec: RetrieverSpec
    width: int
    """Dimensions of its document vectors."""

    @property
    def cost(self) -> tuple[int, int, int]:
        """Parts, then encoders, then the width of the vectors."""
        return self.spec.parts, len(self.spec.vectors), self.width


class Judged(Value):
    """One candidate on the validation split."""

    candidate: Candidate
    mrr: float
    to_best: float
    """Difference of its MRR@10 from the best candidate's, with its interval."""
    low: float
    high: float
    refused: str = ""
    """The baseline that it is significantly below in a direction, if there is one."""


class Choice(Value):
    """The chosen candidate, and every candidate's result by descending MRR@10."""

    label: str
    queries: int
    fixed: bool
    """Whether there were too few queries for a choice."""
    judged: list[Judged]

    @property
    def spec(self) -> RetrieverSpec:
        return next(row.candidate.spec for row in self.judged if row.candidate.label == self.label)


def candidates(
    start: str, whitened: Mapping[str, str], widths: Mapping[str, int], table: str | None
) -> list[Candidate]:
    """Return the retrievers that a run compares.

    Args:
        start: Name of the start encoder.
        whitened: Name of a softly whitened encoder -> what to call it, best first guess first.
        widths: Dimensions of each encoder.
        table: Name of the corpus table; None if the run has none beside its encoders.
    """

    def made(label: str, spec: RetrieverSpec) -> Candidate:
        return Candidate(
            label=label, spec=spec, width=sum(widths[each.folder] for each in spec.vectors)
        )

    found = [
        made(BM25, RetrieverSpec(words="bm25")),
        made("words", RetrieverSpec(words="stems_and_letters")),
        made(START, dense(start)),
    ]
    for name, label in whitened.items():
        found += [
            made(label, dense(name)),
            made(f"{label} + sentences", dense(name, best_sentence=0.5)),
            made(f"{label} + words", dense(name, words="stems_and_letters")),
            made(
                f"{label} + sentences + words",
                dense(name, best_sentence=0.5, words="stems_and_letters"),
            ),
            made(f"{label} + sentences + words + tokens", default_spec(name)),
        ]
    if table:
        first, label = next(iter(whitened.items()))
        both = (Vectors(folder=first), Vectors(folder=table, weight=0.5))
        found += [
            made(f"{label} + table", RetrieverSpec(vectors=both)),
            made(f"{label} + table + sentences", RetrieverSpec(vectors=both, best_sentence=0.5)),
            made("table + sentences + words", without_encoder(table)),
        ]
    return found


def dense(name: str, **parts: object) -> RetrieverSpec:
    """Return a retriever of one encoder, with further parts."""
    return RetrieverSpec.model_validate({"vectors": ({"folder": name},), **parts})


def default_spec(name: str) -> RetrieverSpec:
    """Return the retriever with all parts, best on most corpora (docs/results/retriever.md)."""
    return dense(name, best_sentence=0.5, words="stems_and_letters", tokens=True)


def without_encoder(table: str) -> RetrieverSpec:
    """Return the retriever of the corpus table and words, without a pretrained encoder."""
    return dense(table, best_sentence=0.5, words="stems_and_letters", shares=SHARES_WITHOUT_ENCODER)


def choice(
    found: Sequence[Candidate],
    values: Mapping[str, Sequence[PerQuery]],
    default: str,
    seed: int,
) -> Choice:
    """Return the cheapest candidate that is not significantly below the best.

    A candidate that is significantly below the start or BM25 in a direction is not chosen.

    Args:
        found: All candidates.
        values: Label -> reciprocal ranks of the queries of each direction that counts.
        default: Label of the candidate that few queries return.
        seed: Of the bootstrap.
    """
    joined = {label: np.concatenate(list(each)) for label, each in values.items()}
    best = max(found, key=lambda each: (joined[each.label].mean(), [-c for c in each.cost])).label
    judged: list[Judged] = []
    for each in found:
        gain = paired_difference(joined[each.label], joined[best], seed)
        judged.append(
            Judged(
                candidate=each, mrr=float(joined[each.label].mean()), to_best=gain.mean,
                low=gain.low, high=gain.high, refused=_below(each.label, values, seed),
            )
        )  # fmt: skip
    queries = len(joined[best])
    few = queries < FEWEST_QUERIES
    level = [row.candidate for row in judged if row.high >= 0 and not row.refused]
    cheapest = min(level, key=lambda each: each.cost, default=None)
    return Choice(
        label=default if few or cheapest is None else cheapest.label,
        queries=queries,
        fixed=few,
        judged=sorted(judged, key=lambda row: (-row.mrr, row.candidate.cost)),
    )


def _below(label: str, values: Mapping[str, Sequence[PerQuery]], seed: int) -> str:
    """Return the baseline that a candidate is significantly below in a direction, or ""."""
    for baseline in (BM25, START):
        ways = zip(values[label], values[baseline], strict=True)
        if any(significantly_below(paired_difference(*way, seed)) for way in ways):
            return baseline
    return ""


def significantly_below(gain: Difference) -> bool:
    """Return whether the whole interval of a difference is negative."""
    return gain.high < 0


def direction_values(ranks: PoolRanks, task: Task | None) -> list[PerQuery]:
    """Return the reciprocal ranks of the directions that count for a task."""
    forward = reciprocal_rank(ranks.document_to_counterpart, DEPTH)
    backward = reciprocal_rank(ranks.counterpart_to_document, DEPTH)
    match task:
        case "search":
            return [backward]
        case "titles" | "sessions":
            return [forward]
        case _:
            return [forward, backward]
