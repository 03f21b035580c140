"""When to stop, and which one was best: a pure rule over a list of scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What a list of scores says: the index of the best, whether to go on, and why not."""

    best: int
    go_on: bool
    reason: str


def verdict(
    scores: Sequence[float],
    *,
    patience: int | None = None,
    min_delta: float = 0.0,
    limit: int | None = None,
) -> Verdict:
    """Go on until the score has not grown for `patience` times, or `limit` is reached.

    The best is the highest score, the earliest of equals; a score that is not a number is below
    all. A score has grown if it beats, by more than `min_delta`, the last one that had grown.

    Args:
        scores: `scores[0]` belongs to the start, `scores[r]` to round (or validation) r.
        patience: Scores in a row without growth that end it; none never does.
        min_delta: Growth up to this size counts as noise.
        limit: Scores after the first that end it; none never does.
    """
    if not scores:
        raise ValueError("A verdict needs the score of the start at least, found an empty list.")
    known = [-math.inf if math.isnan(score) else score for score in scores]
    best = max(range(len(known)), key=lambda index: (known[index], -index))
    last_growth = 0
    for index, score in enumerate(known):
        if score > known[last_growth] + min_delta:
            last_growth = index
    waited = len(known) - 1 - last_growth
    if patience is not None and waited >= patience:
        return Verdict(best, False, f"no growth above {min_delta} for {waited} in a row")
    if limit is not None and len(known) - 1 >= limit:
        return Verdict(best, False, f"the limit of {limit} is reached")
    return Verdict(best, True, "")
