"""The gate's decision whether a candidate replaces the champion, from ranks on the gate split.

Nothing else uses the gate split. Promotion needs the whole 95 % interval of the paired gain above a
margin: an equal encoder, which is better by chance every second time, is not promoted. The power
depends on the queries: with 700, of which one in eight changes, a true gain of 6 points passes in
97 of 100 cases and a gain of 4 points in 61.
"""

import numpy as np
from jaxtyping import Int64

from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.formats import counted
from sentemb_core.types import Value

MARGIN = 0.01
"""One point of Recall@5: a smaller gain does not justify encoding an index again."""

DEPTH = 5
"""The paper validates on Recall@5 (mutual, appendix C)."""

FEW = 50
"""With fewer queries only a large gain is significant."""

NO_QUERIES = (
    "Not promoted: the gate has no query. Its split is empty (validation.gate_share), or the "
    "champion or the start encoder learned the label of every query. Use a larger pool "
    "(validation.candidates) or fewer labels (validation.label_share)."
)


class GateDecision(Value):
    """The gate's decision and its reason; the difference is in Recall@5 (0.01 = one point).

    Without a query the difference is 0 with the interval -1 to 1.
    """

    promote: bool
    reason: str
    difference: float
    low: float
    high: float


def gate(
    candidate: Int64[np.ndarray, " candidate"],
    champion: Int64[np.ndarray, " champion"] | None,
    start: Int64[np.ndarray, " start"],
    *,
    collapsed: bool,
    seed: int,
) -> GateDecision:
    """Compare the candidate with the champion, or with its start encoder if there is none.

    Args:
        candidate: Rank of the counterpart for every query of the gate split.
        champion: Ranks of the same queries under the present champion; None without a champion.
        start: Ranks of the same queries under the encoder that the candidate was trained from.
        collapsed: The collapse alarm of `diagnostics`; a collapsed encoder is never promoted.
        seed: Of the bootstrap.

    Raises:
        BadDataError: the ranks have different numbers of queries.
    """
    if not len(candidate):
        return GateDecision(promote=False, reason=NO_QUERIES, difference=0.0, low=-1.0, high=1.0)
    rival, name = (start, "the start encoder") if champion is None else (champion, "the champion")
    hits, rival_hits = (np.asarray(ranks <= DEPTH, np.float64) for ranks in (candidate, rival))
    gain = paired_difference(hits, rival_hits, seed)
    numbers = (
        f"On the gate split ({'few: ' if len(hits) < FEW else ''}{counted(len(hits), 'query')}) "
        f"R@{DEPTH} is {hits.mean():.3f}, and {rival_hits.mean():.3f} for {name}: a "
        f"difference of {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f} with 95 % confidence)"
    )
    better = f"better than {name} by more than {MARGIN:g} with 95 % confidence"
    beats = gain.low > MARGIN
    if collapsed:
        reason = f"Not promoted: the vectors have collapsed. {numbers}."
    elif beats:
        reason = f"Promoted: {better}. {numbers}."
    else:
        reason = f"Not promoted: not {better}. {numbers}."
    return GateDecision(
        promote=beats and not collapsed,
        reason=reason,
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
    )
