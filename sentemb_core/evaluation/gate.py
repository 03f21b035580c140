"""The gate's decision whether a candidate replaces the champion, from ranks on the gate split.

Nothing else uses the gate split. Promotion needs the whole interval of the paired gain (95 % by
default) above a margin: an equal encoder, which is better by chance every second time, is not
promoted. The power depends on the queries: with 700, of which one in eight changes, a true gain of
6 points passes in 97 of 100 cases and a gain of 4 points in 61.

The bootstrap of few queries is overconfident, and a nightly run asks every night: with fewer than
100 queries the gate needs 99.9 %, and with fewer than 30 it promotes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from sentemb_core.config.run import GateConfig
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.bootstrap import by_unit, paired_difference
from sentemb_core.formats import change, counted
from sentemb_core.types import Value

RULES = GateConfig()

METRICS = {"recall_at_5": "R@5", "mrr_at_10": "MRR@10"}

DEPTH = 5
"""The paper validates on Recall@5 (mutual, appendix C)."""

MRR_DEPTH = 10

FEW = 100
"""With fewer queries the gain needs `FEW_LEVEL`: with 20 to 37 queries and 95 %, the gate promoted
5 of 80 encoders that were as good as the champion."""

FEW_LEVEL = 0.999

FEWEST = 30
"""With fewer queries the gate promotes nothing."""

PROMOTED = "Promoted:"
"""Begins the reason of a promotion."""

NO_QUERIES = (
    "Not promoted: the gate has no query. Its split is empty (validation.gate_share), or the "
    "champion or the start encoder learned the label of every query. Use a larger pool "
    "(validation.candidates) or fewer labels (validation.label_share)."
)


class GateDecision(Value):
    """The gate's decision and its reason.

    The difference is in the metric of the rules (0.01 = one point).

    Without a query the difference is 0 with the interval -1 to 1.
    """

    promote: bool
    reason: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Queries:
    """The queries of the gate split, in all directions that count.

    Attributes:
        unit: The counterpart that each query is about: a unit of the bootstrap (`by_unit`).
        way: Its direction.
    """

    unit: Int64[np.ndarray, " queries"]
    way: Int64[np.ndarray, " queries"]

    @classmethod
    def of(cls, count: int) -> "Queries":
        """Return queries about different counterparts, in one direction."""
        return cls(np.arange(count), np.zeros(count, np.int64))


def gate(
    candidate: Int64[np.ndarray, " candidate"],
    champion: Int64[np.ndarray, " champion"] | None,
    start: Int64[np.ndarray, " start"],
    *,
    collapsed: bool,
    seed: int,
    queries: Queries | None = None,
    rules: GateConfig = RULES,
    floors: Mapping[str, Int64[np.ndarray, " floor"]] | None = None,
) -> GateDecision:
    """Compare the candidate with the champion, or with its start encoder if there is none.

    Args:
        candidate: First rank of an answer for every query of the gate split.
        champion: Ranks of the same queries under the present champion; None without a champion.
        start: Ranks of the same queries under the encoder that the candidate was trained from.
        collapsed: The collapse alarm of `diagnostics`; a collapsed encoder is never promoted.
        seed: Of the bootstrap.
        queries: Counterpart and direction of each query; None: all differ, in one direction.
        rules: Metric, margin and level of confidence. The gain of few queries needs `FEW_LEVEL`.
        floors: Name -> ranks of what the candidate must not be significantly below in a direction.

    Raises:
        BadDataError: the ranks have different numbers of queries.
    """
    if not len(candidate):
        return GateDecision(promote=False, reason=NO_QUERIES, difference=0.0, low=-1.0, high=1.0)
    rival, name = (start, "the start encoder") if champion is None else (champion, "the champion")
    for ranks in (rival, *(floors or {}).values()):
        if len(ranks) != len(candidate):
            raise BadDataError(
                f"The gate compares ranks of the same queries; found {len(candidate)} and "
                f"{len(ranks)}. Score both encoders on the same split of the same pool."
            )
    queries = queries or Queries.of(len(candidate))
    values, rival_values = (
        by_unit(_values(ranks, rules), queries.unit) for ranks in (candidate, rival)
    )
    level = gain_level(len(values), rules)
    gain = paired_difference(values, rival_values, seed, level)
    metric, confidence = METRICS[rules.metric], f"{100 * level:g} % confidence"
    numbers = (
        f"On the gate split ({_size(len(values), rules)}) {metric} is {values.mean():.3f}, and "
        f"{rival_values.mean():.3f} for {name}: a difference of {change(gain.mean)} "
        f"({change(gain.low)} to {change(gain.high)} with {confidence})"
    )
    better = f"better than {name} by more than {rules.margin:g} with {confidence}"
    beats = gain.low > rules.margin
    below = [
        floor
        for floor, ranks in (floors or {}).items()
        if _is_below(candidate, ranks, queries, seed, rules)
    ]
    if collapsed:
        reason = f"Not promoted: the vectors have collapsed. {numbers}."
    elif below:
        reason = f"Not promoted: significantly below {' and '.join(below)}. {numbers}."
    elif len(values) < FEWEST:
        reason = (
            f"Not promoted: the gate needs {FEWEST} queries and has {len(values)}. {numbers}. Use "
            "a larger pool (validation.candidates, validation.gate_share), or set the alias "
            "champion by hand (docs/serving.md)."
        )
    elif beats:
        reason = f"{PROMOTED} {better}. {numbers}."
    else:
        reason = f"Not promoted: not {better}. {numbers}."
    return GateDecision(
        promote=beats and not collapsed and not below and len(values) >= FEWEST,
        reason=reason,
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
    )


def _is_below(
    candidate: Int64[np.ndarray, " queries"],
    floor: Int64[np.ndarray, " queries"],
    queries: Queries,
    seed: int,
    rules: GateConfig,
) -> bool:
    """Return whether the candidate is significantly below a floor in a direction."""
    for way in np.unique(queries.way):
        of_way = queries.way == way
        values, floor_values = (
            by_unit(_values(ranks[of_way], rules), queries.unit[of_way])
            for ranks in (candidate, floor)
        )
        if paired_difference(values, floor_values, seed, rules.level).high < 0:
            return True
    return False


def other_width(candidate: int, champion: int) -> GateDecision:
    """Return the refusal of a candidate whose vectors have another width than the champion's."""
    return GateDecision(
        promote=False,
        reason=f"Not promoted: its vectors have {counted(candidate, 'dimension')}, those of the "
        f"champion {champion:,}, and no index of the champion can hold them. Set "
        "gate.new_width=true to allow it, or register it under another --name.",
        difference=0.0,
        low=-1.0,
        high=1.0,
    )


def gain_level(queries: int, rules: GateConfig = RULES) -> float:
    """Return the confidence that the gain of this many queries needs."""
    return max(rules.level, FEW_LEVEL) if queries < FEW else rules.level


def _size(queries: int, rules: GateConfig) -> str:
    """Return the number of queries, and the level if their number raises it."""
    count, level = counted(queries, "query"), gain_level(queries, rules)
    if level == rules.level:
        return count
    usual, asked = (f"{100 * each:g} %" for each in (rules.level, level))
    return f"few: {count}, and below {FEW} the gate asks {asked} instead of {usual}"


def _values(
    ranks: Int64[np.ndarray, " queries"], rules: GateConfig
) -> Float64[np.ndarray, " queries"]:
    """Return the value of each query in the metric of the rules."""
    if rules.metric == "recall_at_5":
        return np.asarray(ranks <= DEPTH, np.float64)
    return np.where(ranks <= MRR_DEPTH, 1 / ranks, 0.0)
