"""Early stopping: a pure rule over a list of scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StoppingDecision:
    """Index of the best score, whether to continue, and why not."""

    best: int
    go_on: bool
    reason: str


def stopping_decision(
    scores: Sequence[float],
    *,
    patience: int | None = None,
    min_delta: float = 0.0,
    limit: int | None = None,
) -> StoppingDecision:
    """Stop after `patience` scores without improvement, or at `limit`.

    The best score is the highest; of equal scores the earliest. NaN is below every number. A score
    improves if it exceeds the last improvement by more than `min_delta`.

    Args:
        scores: `scores[0]` belongs to the start, `scores[r]` to round (or validation) r.
        patience: Consecutive scores without improvement after which to stop; None: never.
        min_delta: Improvements up to this size count as noise.
        limit: Number of scores after the first at which to stop; None: never.
    """
    if not scores:
        raise ValueError("A stopping decision needs the score of the start; found an empty list.")
    known = [-math.inf if math.isnan(score) else score for score in scores]
    best = max(range(len(known)), key=lambda index: (known[index], -index))
    last_growth = 0
    for index, score in enumerate(known):
        if score > known[last_growth] + min_delta:
            last_growth = index
    waited = len(known) - 1 - last_growth
    if patience is not None and waited >= patience:
        reason = f"no improvement above {min_delta} in {waited} consecutive scores"
        return StoppingDecision(best, False, reason)
    if limit is not None and len(known) - 1 >= limit:
        return StoppingDecision(best, False, f"limit of {limit} reached")
    return StoppingDecision(best, True, "")
