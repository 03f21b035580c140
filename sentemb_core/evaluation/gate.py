"""May a candidate replace the champion? A pure decision over ranks of one frozen split.

The split is the gate's own: it chose neither the round nor anything else. Promotion needs the
whole 95 % interval of the paired gain above a margin, so an equal encoder, which beats another by
luck every second time, is not shipped. What a corpus can show depends on its queries: with 700 of
them, one in eight changing sides, a true gain of 6 points passes 97 times in 100, one of 4 points
61 times.
"""

import numpy as np
from jaxtyping import Int64

from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.formats import counted
from sentemb_core.types import Value

MARGIN = 0.01
"""One point of Recall@5: less is not worth re-encoding an index for."""

DEPTH = 5
"""The paper validates on Recall@5 (mutual, appendix C)."""

FEW = 50
"""Fewer queries than these show only a large gain."""

NOBODY = (
    "Not promoted: the gate has nobody to ask. Its split has no query (validation.gate_share), or "
    "of every one the champion or the start encoder has learnt the label: a larger pool "
    "(validation.candidates) or fewer labels to learn from (validation.label_share) leave it some."
)


class GateDecision(Value):
    """What the gate decided and why; the difference is in Recall@5 (0.01 = one point).

    Without a query it is unknown: 0, anywhere from -1 to 1.
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
    """Compare the candidate with the champion, or with its start encoder at the first landing.

    Args:
        candidate: Rank of the counterpart for every query of the gate split.
        champion: The same queries under the present champion; none: there is no champion yet.
        start: The same queries under the encoder that the candidate was trained from.
        collapsed: The collapse alarm of `diagnostics`; a collapsed encoder is never promoted.
        seed: Of the bootstrap.

    Raises:
        BadDataError: the ranks belong to different numbers of queries.
    """
    if not len(candidate):
        return GateDecision(promote=False, reason=NOBODY, difference=0.0, low=-1.0, high=1.0)
    rival, name = (start, "the start encoder") if champion is None else (champion, "the champion")
    hits, rival_hits = (np.asarray(ranks <= DEPTH, np.float64) for ranks in (candidate, rival))
    gain = paired_difference(hits, rival_hits, seed)
    found = (
        f"On the gate split ({'few: ' if len(hits) < FEW else ''}{counted(len(hits), 'query')}) "
        f"Recall@{DEPTH} is {hits.mean():.3f} against {rival_hits.mean():.3f} of {name}, a "
        f"difference of {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    )
    better = f"better than {name} by more than {MARGIN:g} with 95 % confidence"
    beats = gain.low > MARGIN
    if collapsed:
        reason = f"Not promoted: the vectors have collapsed. {found}."
    elif beats:
        reason = f"Promoted: {better}. {found}."
    else:
        reason = f"Not promoted: it is not {better}. {found}."
    return GateDecision(
        promote=beats and not collapsed,
        reason=reason,
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
    )
