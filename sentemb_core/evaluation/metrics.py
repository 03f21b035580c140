"""Ranks of the relevant items in, one value a query out, by trec_eval's definitions.

An item is relevant or not, but for nDCG, which asks how relevant. The mean over queries is the
table's number; the single values are what a bootstrap resamples. Ties never reach this file:
`evaluation.ranking` breaks them as trec_eval does before it counts a rank.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

PerQuery = Float64[np.ndarray, " queries"]

UNRANKED = np.iinfo(np.int64).max
"""Rank of an item that is not among the candidates of its query: below every place."""


@dataclass(frozen=True)
class Ranks:
    """Where the relevant items of each query came out, the best possible place being 1.

    Query q has the ascending ranks `rank[offsets[q]:offsets[q + 1]]`, at least one. Unretrieved
    items have ranks too, so recall at any depth can be read off. `grade` says how relevant each
    item is, 1 or more; none where all are alike.
    """

    rank: Int64[np.ndarray, " relevant"]
    offsets: Int64[np.ndarray, " bounds"]
    grade: Int64[np.ndarray, " relevant"] | None = None

    def __len__(self) -> int:
        """Queries."""
        return len(self.offsets) - 1

    @property
    def relevant(self) -> Int64[np.ndarray, " queries"]:
        """Relevant items of each query (g)."""
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
    """Share of a query's relevant items among its first k (product_thesis, Eq. 4).

    With a single relevant item this is the hit rate.
    """
    return _hits(ranks, k) / ranks.relevant


def capped_recall(ranks: Ranks, k: int) -> PerQuery:
    """Recall over the most that k places can hold, hits / min(k, g) (product_thesis, Eq. 6)."""
    return _hits(ranks, k) / np.minimum(k, ranks.relevant)


def precision(ranks: Ranks, k: int) -> PerQuery:
    """Share of the first k places that hold a relevant item (product_thesis, Eq. 5)."""
    return _hits(ranks, k) / k


def reciprocal_rank(ranks: Ranks, k: int) -> PerQuery:
    """1 / rank of the first relevant item, 0 below place k; its mean is MRR@k."""
    return np.where(ranks.best <= k, 1.0 / ranks.best, 0.0)


def average_precision(ranks: Ranks, k: int) -> PerQuery:
    """Precision at each relevant item among the first k, over g; its mean is trec's map_cut_k."""
    precisions = ranks.order / ranks.rank
    return _sums(ranks, np.where(ranks.rank <= k, precisions, 0.0)) / ranks.relevant


def ndcg(ranks: Ranks, k: int) -> PerQuery:
    """Gain grade / log2(rank + 1) of the first k places over that of a perfect ranking.

    The gain is the grade itself (trec_eval's ndcg_cut), not 2^grade - 1 as in other definitions.
    """
    grade = np.ones_like(ranks.rank) if ranks.grade is None else ranks.grade
    query = np.repeat(np.arange(len(ranks)), ranks.relevant)
    best_first = grade[np.lexsort((-grade, query))]
    gained = np.where(ranks.rank <= k, grade / np.log2(ranks.rank + 1.0), 0.0)
    ideal = np.where(ranks.order <= k, best_first / np.log2(ranks.order + 1.0), 0.0)
    return _sums(ranks, gained) / _sums(ranks, ideal)


def _hits(ranks: Ranks, k: int) -> PerQuery:
    return _sums(ranks, (ranks.rank <= k).astype(np.float64))


def _sums(ranks: Ranks, values: Float64[np.ndarray, " relevant"]) -> PerQuery:
    return np.add.reduceat(values, ranks.offsets[:-1])
