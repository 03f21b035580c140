"""Retrieval measures by trec_eval's definitions: from ranks of relevant items to a value a query.

Items are relevant or not, except for nDCG, which uses grades. Tables show the mean over queries;
a bootstrap resamples the single values. `evaluation.ranking` has already broken the ties.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

PerQuery = Float64[np.ndarray, " queries"]

UNRANKED = np.iinfo(np.int64).max
"""Rank of an item that is no candidate of its query: below every place."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of the relevant items of each query, from 1.

    Query q has the ascending ranks `rank[offsets[q]:offsets[q + 1]]`, at least one. `grade` is the
    relevance of each item, 1 or more; None if all are equal.
    """

    rank: Int64[np.ndarray, " relevant"]
    offsets: Int64[np.ndarray, " bounds"]
    grade: Int64[np.ndarray, " relevant"] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def relevant(self) -> Int64[np.ndarray, " queries"]:
        """Number of relevant items of each query (g)."""
        return np.diff(self.offsets)

    @property
    def best(self) -> Int64[np.ndarray, " queries"]:
        """Rank of each query's first relevant item."""
        return self.rank[self.offsets[:-1]]

    @property
    def order(self) -> Int64[np.ndarray, " relevant"]:
        """1 for a query's first relevant item, 2 for its second, ..."""
        return np.arange(1, len(self.rank) + 1) - np.repeat(self.offsets[:-1], self.relevant)


def recall(ranks: Ranks, k: int) -> PerQuery:
    """Return the share of relevant items among the first k (product_thesis, Eq. 4).

    With one relevant item per query this is the hit rate.
    """
    return _hits(ranks, k) / ranks.relevant


def capped_recall(ranks: Ranks, k: int) -> PerQuery:
    """Return hits over the most possible hits, hits / min(k, g) (product_thesis, Eq. 6)."""
    return _hits(ranks, k) / np.minimum(k, ranks.relevant)


def precision(ranks: Ranks, k: int) -> PerQuery:
    """Return the share of relevant items in the first k places (product_thesis, Eq. 5)."""
    return _hits(ranks, k) / k


def reciprocal_rank(ranks: Ranks, k: int) -> PerQuery:
    """Return 1 / rank of the first relevant item, 0 below place k; the mean is MRR@k."""
    return np.where(ranks.best <= k, 1.0 / ranks.best, 0.0)


def average_precision(ranks: Ranks, k: int) -> PerQuery:
    """Return the sum of precisions at relevant items of the first k, over g (trec's map_cut_k)."""
    precisions = ranks.order / ranks.rank
    return _sums(ranks, np.where(ranks.rank <= k, precisions, 0.0)) / ranks.relevant


def ndcg(ranks: Ranks, k: int) -> PerQuery:
    """Return the gain grade / log2(rank + 1) of the first k places over that of a perfect ranking.

    The gain is the grade itself (trec_eval's ndcg_cut), not 2^grade - 1 as in other definitions.
    """
    grade = np.ones_like(ranks.rank) if ranks.grade is None else ranks.grade
    query = np.repeat(np.arange(len(ranks)), ranks.relevant)
    best_first = grade[np.lexsort((-grade, query))]
    gained = np.where(ranks.rank <= k, grade / np.log2(ranks.rank + 1.0), 0.0)
    ideal = np.where(ranks.order <= k, best_first / np.log2(ranks.order + 1.0), 0.0)
    return _sums(ranks, gained) / _sums(ranks, ideal)


METRICS: Mapping[str, Callable[[Ranks, int], PerQuery]] = {
    "nDCG": ndcg,
    "MAP": average_precision,
    "MRR": reciprocal_rank,
    "P": precision,
    "R": recall,
    "R_cap": capped_recall,
}
"""A measure's name without its depth -> its function."""


def values_of(measure: str, ranks: Ranks) -> PerQuery:
    """Return a measure by its name in tables, such as R@5."""
    name, _, k = measure.partition("@")
    return METRICS[name](ranks, int(k))


def _hits(ranks: Ranks, k: int) -> PerQuery:
    return _sums(ranks, (ranks.rank <= k).astype(np.float64))


def _sums(ranks: Ranks, values: Float64[np.ndarray, " relevant"]) -> PerQuery:
    return np.add.reduceat(values, ranks.offsets[:-1])
