"""The choice of a retriever: the cheapest of a few within one standard error of the best.

The list is short and the weights are fixed, so that the choice itself overfits little. Queries
about one counterpart are one unit of the bootstrap: a document and its title find each other, or
neither does.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from sentemb_core.corpus.validation_pool import Split, ValidationPool
from sentemb_core.evaluation.bootstrap import (
    LEVEL,
    SAME,
    Difference,
    by_unit,
    difference_of,
    paired_difference,
    resampled_means,
)
from sentemb_core.evaluation.metrics import reciprocal_rank
from sentemb_core.evaluation.validation_scores import Direction, PoolRanks
from sentemb_core.retriever.spec import SHARES_WITHOUT_ENCODER, RetrieverSpec, Vectors
from sentemb_core.types import SearchTask, Value

FEWEST_QUERIES = 100
"""With fewer queries nothing is chosen: the default of docs/results/retriever.md is returned."""

DEPTH = 10
"""MRR@10 decides."""

BM25 = "BM25"
BASELINES = (BM25, "start")
"""Candidates that the chosen one must not be below in a direction, where they are among them."""

ONE_ERROR = 0.6827
"""Level of an interval of one standard error on both sides (Breiman et al. 1984: the 1 SE rule)."""

REFUSALS = (None, ONE_ERROR, LEVEL)
"""Levels at which a candidate below a baseline is refused: at all, by one standard error, and
significantly. The first that leaves a candidate counts: 160 queries of validation do not show a
loss of .015 in one direction as significant (ours, from three seeds of sessions)."""

PerQuery = Float64[np.ndarray, " _"]
Units = Int64[np.ndarray, " _"]
"""Number of the counterpart that a query is about."""


class Candidate(Value):
    """A retriever that may be returned; the folders of its spec are names of encoders."""

    label: str
    spec: RetrieverSpec
    width: int
    """Dimensions of its document vectors."""

    @property
    def cost(self) -> tuple[int, int, int, bool]:
        """Parts, then encoders, the width of the vectors, and whether texts are read twice."""
        return self.spec.parts, len(self.spec.vectors), self.width, self.spec.unit == "both"


class Judged(Value):
    """One candidate on the validation split."""

    candidate: Candidate
    mrr: float
    to_best: float
    """Difference of its MRR@10 from that of the best one that may be chosen, with its interval."""
    low: float
    high: float
    level: bool = True
    """Whether it is at most one standard error below the best."""
    refused: str = ""
    """The baseline that it is below in a direction, if there is one (`REFUSALS`)."""


class Choice(Value):
    """The chosen candidate, and every candidate's result by descending MRR@10."""

    label: str
    queries: int
    """Counterparts that are looked for, or that look for their documents."""
    fixed: bool
    """Whether there were too few queries for a choice."""
    required: str | None = None
    """The encoder that the chosen candidate had to have."""
    judged: list[Judged]

    @property
    def chosen(self) -> Judged:
        return next(row for row in self.judged if row.candidate.label == self.label)

    @property
    def spec(self) -> RetrieverSpec:
        return self.chosen.candidate.spec

    def why_not(self, row: Judged) -> str:
        """Return why a candidate was not chosen; "" for the chosen one."""
        if row.candidate.label == self.label:
            return ""
        if self.fixed:
            return "too few queries to choose"
        if self.required and not has_encoder(row.candidate.spec, self.required):
            return f"lacks the encoder {self.required!r}"
        if row.refused:
            return f"worse than {row.refused}"
        return "no better than the chosen one" if row.level else "worse than the best"


def with_words(static: Mapping[str, bool], widths: Mapping[str, int]) -> list[Candidate]:
    """Return the retrievers by which a run compares its encoders: vectors, sentences and words.

    Args:
        static: Whether each encoder is a static table, the first guess first.
        widths: Dimensions of each encoder.
    """
    return [
        Candidate(label=name, spec=_with_words(name, static=is_static), width=widths[name])
        for name, is_static in static.items()
    ]


def candidates(
    start: str,
    name: str,
    widths: Mapping[str, int],
    table: str | None,
    *,
    static: bool = False,
    whole_texts: bool = False,
) -> list[Candidate]:
    """Return the retrievers that a run compares, and the default first.

    Args:
        start: Name of the start encoder.
        name: Name of the softly whitened encoder.
        widths: Dimensions of each encoder.
        table: Name of the corpus table; None if the run has none beside its encoders.
        static: Whether the whitened encoder is a static table.
        whole_texts: Whether the whitened encoder has also read whole texts.
    """
    lexical = _with_words(name, static=static)
    specs = {} if static else {f"{name} + sentences + words + tokens": default_spec(name)}
    specs |= {
        f"{name} + sentences + words": lexical,
        f"{name} + words": lexical.model_copy(update={"best_sentence": 0.0}),
        f"{name} + sentences": dense(name, best_sentence=0.5),
        name: dense(name),
    }
    if whole_texts:
        specs |= {
            label.replace(name, f"{name} of sentences and whole texts"): spec.model_copy(
                update={"unit": "both"}
            )
            for label, spec in specs.items()
        }
    if table:
        both = RetrieverSpec(vectors=(Vectors(folder=name), Vectors(folder=table, weight=0.5)))
        nearest = both.model_copy(update={"best_sentence": 0.5})
        if not static:
            reranked = nearest.model_copy(update={"tokens": True})
            everything = reranked.model_copy(update={"words": "stems_and_letters"})
            specs[f"{name} + {table} + sentences + words + tokens"] = everything
            specs[f"{name} + {table} + sentences + tokens"] = reranked
        specs |= {
            f"{name} + {table}": both,
            f"{name} + {table} + sentences": nearest,
            f"{table} + sentences + words": without_encoder(table),
        }
    specs |= {
        "start": dense(start),
        "words": RetrieverSpec(words="stems_and_letters"),
        BM25: RetrieverSpec(words="bm25"),
    }
    return [
        Candidate(label=label, spec=spec, width=sum(widths[each.folder] for each in spec.vectors))
        for label, spec in specs.items()
    ]


def dense(name: str, **parts: object) -> RetrieverSpec:
    """Return a retriever of one encoder, with further parts."""
    return RetrieverSpec.model_validate({"vectors": ({"folder": name},), **parts})


def default_spec(name: str, *, tokens: bool = True) -> RetrieverSpec:
    """Return the retriever with all parts, best on most corpora (docs/results/retriever.md)."""
    return dense(name, best_sentence=0.5, words="stems_and_letters", tokens=tokens)


def _with_words(name: str, *, static: bool) -> RetrieverSpec:
    return without_encoder(name) if static else default_spec(name, tokens=False)


def without_encoder(table: str) -> RetrieverSpec:
    """Return the retriever of the corpus table and words, without a pretrained encoder."""
    return dense(table, best_sentence=0.5, words="stems_and_letters", shares=SHARES_WITHOUT_ENCODER)


def choice(
    found: Sequence[Candidate],
    values: Mapping[str, Sequence[PerQuery]],
    units: Sequence[Units],
    required: str | None,
    seed: int,
) -> Choice:
    """Return the cheapest candidate that is at most one standard error below the best.

    A candidate that is below the start or BM25 in a direction is not chosen. If all are, one that
    is below by less than a standard error may be; if all are below by more, one that is not
    significantly (95 %) below; else any.

    Args:
        found: All candidates; the first is returned with too few queries.
        values: Label -> reciprocal ranks of the queries of each direction that counts.
        units: For each direction, the counterpart that each query is about.
        required: Name of an encoder that the chosen candidate has; None: any may be chosen.
        seed: Of the bootstrap.
    """
    every = np.concatenate(list(units))
    joined = {label: by_unit(np.concatenate(list(each)), every) for label, each in values.items()}
    ways = {
        label: [by_unit(way, of_way) for way, of_way in zip(each, units, strict=True)]
        for label, each in values.items()
    }
    fitting = [each for each in found if not required or has_encoder(each.spec, required)]
    refused = _refusals(found, fitting, ways, seed)
    allowed = [each for each in fitting if not refused[each.label]] or fitting
    best = max(allowed, key=lambda each: (joined[each.label].mean(), [-c for c in each.cost])).label
    gains = {each.label: joined[each.label] - joined[best] for each in found}
    resampled = {label: resampled_means(gain, seed) for label, gain in gains.items()}

    def to_best(label: str, level: float) -> Difference:
        gain = gains[label]
        return difference_of(float(gain.mean()), resampled[label], len(gain), level)

    level = {each.label for each in found if to_best(each.label, ONE_ERROR).high >= 0}
    judged = [
        Judged(
            candidate=each, mrr=float(joined[each.label].mean()), to_best=gain.mean, low=gain.low,
            high=gain.high, level=each.label in level, refused=refused[each.label],
        )
        for each in found
        for gain in [to_best(each.label, LEVEL)]
    ]  # fmt: skip
    queries = len(joined[best])
    few = queries < FEWEST_QUERIES
    cheapest = min((each for each in allowed if each.label in level), key=lambda each: each.cost)
    return Choice(
        label=(found[0] if few else cheapest).label,
        queries=queries,
        fixed=few,
        required=required,
        judged=sorted(judged, key=lambda row: (-row.mrr, row.candidate.cost)),
    )


def unchosen(queries: int) -> str:
    """Return a warning if so few queries choose nothing, else the empty text."""
    if queries >= FEWEST_QUERIES:
        return ""
    return (
        f"{queries:,} queries could choose, fewer than {FEWEST_QUERIES}: nothing is chosen. The "
        "run returns the default retriever, which rounds from a pretrained encoder do not change "
        "(docs/retriever.md#the-choice). More documents with a counterpart give more queries."
    )


def _refusals(
    found: Sequence[Candidate],
    fitting: Sequence[Candidate],
    values: Mapping[str, Sequence[PerQuery]],
    seed: int,
) -> dict[str, str]:
    """Return the baseline that refuses each candidate, or "", at the first level that counts."""
    refused: dict[str, str] = {}
    for level in REFUSALS:
        refused = {each.label: _below(each.label, values, seed, level) for each in found}
        if not all(refused[each.label] for each in fitting):
            break
    return refused


def _below(
    label: str, values: Mapping[str, Sequence[PerQuery]], seed: int, level: float | None
) -> str:
    """Return the baseline that a candidate is below in a direction at this level, or ""."""

    def is_less(first: PerQuery, second: PerQuery) -> bool:
        if level is None:
            return float((first - second).mean()) < -SAME
        return paired_difference(first, second, seed, level).high < 0

    for baseline in filter(values.__contains__, BASELINES):
        if any(map(is_less, values[label], values[baseline])):
            return baseline
    return ""


def has_encoder(spec: RetrieverSpec, name: str) -> bool:
    """Return whether a retriever uses the encoder of this name."""
    return any(each.folder == name for each in spec.vectors)


def direction_values(ranks: Sequence[PoolRanks], task: SearchTask | None) -> list[PerQuery]:
    """Return the reciprocal ranks of the directions that count, as means over kinds of query."""
    return [
        np.mean([reciprocal_rank(getattr(each, way), DEPTH) for each in ranks], axis=0)
        for way in directions_of(task)
    ]


def direction_units(pool: ValidationPool, split: Split, task: SearchTask | None) -> list[Units]:
    """Return the counterpart of each query of a split, for the directions that count."""
    distinct, own = np.unique(pool.query_candidate[pool.queries(split)], return_inverse=True)
    units: dict[Direction, Units] = {
        "document_to_counterpart": own.astype(np.int64),
        "counterpart_to_document": np.arange(len(distinct)),
    }
    return [units[way] for way in directions_of(task)]


def directions_of(task: SearchTask | None) -> list[Direction]:
    """Return the directions that count for a task."""
    match task:
        case "search":
            return ["counterpart_to_document"]
        case "titles" | "sessions":
            return ["document_to_counterpart"]
        case _:
            return ["document_to_counterpart", "counterpart_to_document"]
