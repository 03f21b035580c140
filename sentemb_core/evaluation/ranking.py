"""Ranks of relevant items by counting, in flat memory and without a sort.

A rank is 1 + the candidates that score higher + the equal ones with a larger id, which is
trec_eval's order, (score, id) descending. So an encoder that cannot tell candidates apart gets
what chance gives it; a stable sort would give it the order of the file.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation.metrics import Ranks

CELLS = 1 << 23
"""Scores held at once: 33 MB as float32."""

ScoreRows = Callable[[Int64[np.ndarray, " n"]], Float[np.ndarray, "n candidates"]]
"""Scores of all candidates for the queries at these places."""


@dataclass(frozen=True)
class Relevant:
    """What each query should find: `item[offsets[q]:offsets[q + 1]]`, at least one candidate."""

    query: Int64[np.ndarray, " queries"]
    item: Int64[np.ndarray, " relevant"]
    offsets: Int64[np.ndarray, " bounds"]


def ranks_of_relevant(
    queries: Float32[np.ndarray, "queries dim"],
    candidates: Float32[np.ndarray, "candidates dim"],
    relevant: Relevant,
    ids: Int64[np.ndarray, " candidates"],
) -> Ranks:
    """Ranks by inner product; among equal scores the candidate with the larger id goes first."""
    return counted_ranks(inner_products(queries, candidates), relevant, ids)


def counted_ranks(
    scores: ScoreRows, relevant: Relevant, ids: Int64[np.ndarray, " candidates"]
) -> Ranks:
    """Ranks of all relevant items, block by block of (query, item) pairs in flat memory.

    Raises:
        BadEmbeddingError: a score that is not finite (NaN would otherwise rank first).
    """
    sizes = np.diff(relevant.offsets)
    query = np.repeat(relevant.query, sizes)
    block = max(1, CELLS // len(ids))
    ranks = [
        _ranks(scores(query[k : k + block]), relevant.item[k : k + block], ids)
        for k in range(0, len(query), block)
    ]
    rank = np.concatenate(ranks)
    ascending = np.lexsort((rank, np.repeat(np.arange(len(sizes)), sizes)))
    return Ranks(rank[ascending], relevant.offsets)


def _ranks(
    scores: Float[np.ndarray, "pairs candidates"],
    item: Int64[np.ndarray, " pairs"],
    ids: Int64[np.ndarray, " candidates"],
) -> Int64[np.ndarray, " pairs"]:
    """Rank of one candidate in each row of scores."""
    if not np.isfinite(scores).all():
        bad = int((~np.isfinite(scores)).any(axis=1).sum())
        raise BadEmbeddingError(
            f"A score must be finite to be ranked; {bad} of {len(scores)} queries have one that is "
            "not: look for diverged training or for empty texts."
        )
    own = scores[np.arange(len(item)), item][:, None]
    ahead: Bool[np.ndarray, "pairs candidates"] = scores > own
    ahead |= (scores == own) & (ids > ids[item][:, None])
    return 1 + np.count_nonzero(ahead, axis=1).astype(np.int64)


def inner_products(
    queries: Float32[np.ndarray, "queries dim"], candidates: Float32[np.ndarray, "candidates dim"]
) -> ScoreRows:
    """Scores as inner products of vectors."""

    def scores(places: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n candidates"]:
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused by name
            return queries[places] @ candidates.T

    return scores
