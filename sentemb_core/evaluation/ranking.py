"""Ranks of relevant items by counting, in constant memory and without a sort.

A rank is 1 + the number of candidates with a higher score, or with an equal score and a larger id:
trec_eval's order, (score, id) descending. So an encoder with one score for all candidates gets what
chance gives; a stable sort would reward it with the order of the file.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation.metrics import UNRANKED, Ranks

CELLS = 1 << 25
"""Scores in memory at once: 134 MB as float32. Each block of queries reads all candidates, so a
quarter of it takes twice as long with 200,000 candidates."""

ABSENT = -1
"""A relevant item that is no candidate: no query finds it, but it counts as relevant, as in
trec_eval."""

ScoreRows = Callable[[Int64[np.ndarray, " n"]], Float[np.ndarray, "n candidates"]]
"""Scores of all candidates for the queries at these places, in a new array."""


@dataclass(frozen=True)
class Relevant:
    """The relevant items of each query: `item[offsets[q]:offsets[q + 1]]`, at least one.

    An item may be `ABSENT`. `grade` is the relevance, 1 or more; None if all are equal.
    """

    query: Int64[np.ndarray, " queries"]
    item: Int64[np.ndarray, " relevant"]
    offsets: Int64[np.ndarray, " bounds"]
    grade: Int64[np.ndarray, " relevant"] | None = None

    def of(self, kept: Int64[np.ndarray, " kept"]) -> "Relevant":
        """Return the relevant items of these queries only."""
        pairs, bounds = rows_of(self.offsets, kept)
        grade = None if self.grade is None else self.grade[pairs]
        return Relevant(self.query[kept], self.item[pairs], bounds, grade)


def rows_of(
    starts: Int64[np.ndarray, " bounds"], groups: Int64[np.ndarray, " some"]
) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " some+1"]]:
    """Return the rows of some groups, one group after the other, and where each group starts.

    Group g has the rows `starts[g]` to `starts[g + 1] - 1`.
    """
    sizes = np.diff(starts)[groups]
    bounds = np.append(0, np.cumsum(sizes))
    return np.arange(bounds[-1]) + np.repeat(starts[groups] - bounds[:-1], sizes), bounds


def ranks_of_relevant(
    queries: Float32[np.ndarray, "queries dim"],
    candidates: Float32[np.ndarray, "candidates dim"],
    relevant: Relevant,
    ids: Int64[np.ndarray, " candidates"],
) -> Ranks:
    """Return ranks by inner product; among equal scores the larger id is first."""
    return counted_ranks(inner_products(queries, candidates), relevant, ids)


def counted_ranks(
    scores: ScoreRows, relevant: Relevant, ids: Int64[np.ndarray, " candidates"]
) -> Ranks:
    """Return the ranks of all relevant items, in blocks of queries and items.

    Raises:
        BadEmbeddingError: a score that is NaN (it would rank first) or infinite; -inf marks an
            item that is no candidate.
    """
    sizes = np.diff(relevant.offsets)
    row = np.repeat(np.arange(len(sizes)), sizes)
    block = max(1, CELLS // len(ids))
    ranks: list[Int64[np.ndarray, " pairs"]] = []
    for k in range(0, len(sizes), block):
        rows = _rankable(scores(relevant.query[k : k + block]))
        first, last = relevant.offsets[k], relevant.offsets[min(k + block, len(sizes))]
        for some in np.split(np.arange(first, last), range(block, last - first, block)):
            ranks.append(_ranks(rows[row[some] - k], relevant.item[some], ids))
    rank = np.concatenate(ranks)
    ascending = np.lexsort((rank, row))
    grade = None if relevant.grade is None else relevant.grade[ascending]
    return Ranks(rank[ascending], relevant.offsets, grade)


def _rankable(
    scores: Float[np.ndarray, "queries candidates"],
) -> Float[np.ndarray, "queries candidates"]:
    if not scores.max(initial=-np.inf) < np.inf:  # NaN is the maximum of any row that has one
        bad = int((~(scores < np.inf)).any(axis=1).sum())
        raise BadEmbeddingError(
            f"A score must be finite to be ranked; {bad} of {len(scores)} queries have one that is "
            "not. Look for diverged training or for empty texts."
        )
    return scores


def _ranks(
    scores: Float[np.ndarray, "pairs candidates"],
    item: Int64[np.ndarray, " pairs"],
    ids: Int64[np.ndarray, " candidates"],
) -> Int64[np.ndarray, " pairs"]:
    """Return the rank of one candidate (or `UNRANKED`) in each row of scores."""
    own = scores[np.arange(len(item)), item][:, None]
    ranks = 1 + np.count_nonzero(scores > own, axis=1).astype(np.int64)
    equal = scores == own
    tied = np.flatnonzero(np.count_nonzero(equal, axis=1) > 1)
    ranks[tied] += np.count_nonzero(equal[tied] & (ids > ids[item[tied], None]), axis=1)
    return np.where((item == ABSENT) | np.isneginf(own[:, 0]), UNRANKED, ranks)


def inner_products(
    queries: Float32[np.ndarray, "queries dim"], candidates: Float32[np.ndarray, "candidates dim"]
) -> ScoreRows:
    """Return inner products as scores; equal candidates have equal scores to the last bit.

    A matrix product rounds its last columns differently, so equal vectors would not tie. Each
    distinct vector is therefore multiplied once.
    """
    distinct, copy_of = _distinct(candidates)

    def scores(places: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n candidates"]:
        with np.errstate(invalid="ignore", over="ignore"):  # refused in `counted_ranks`
            products = queries[places] @ distinct.T
        return products if len(distinct) == len(candidates) else products[:, copy_of]

    return scores


def without(scores: ScoreRows, hidden: Mapping[int, Int64[np.ndarray, " items"]]) -> ScoreRows:
    """Return the scores with some candidates of a query (by its place) hidden."""

    def visible(rows: Int64[np.ndarray, " n"]) -> Float[np.ndarray, "n candidates"]:
        table = scores(rows)
        for place, row in enumerate(rows.tolist()):
            if row in hidden:
                table[place, hidden[row]] = -np.inf
        return table

    return visible


def _distinct(
    vectors: Float32[np.ndarray, "n dim"],
) -> tuple[Float32[np.ndarray, "distinct dim"], Int64[np.ndarray, " n"]]:
    """Return the distinct vectors by first appearance, and the index of each vector among them.

    Few vectors share their first two values, and only these are compared whole.
    """
    heads = np.zeros((len(vectors), 2), np.float32)
    heads[:, : vectors.shape[1]] = vectors[:, :2]
    _, head, count = np.unique(heads.view(np.uint64), return_inverse=True, return_counts=True)
    first = np.arange(len(vectors))
    known: dict[bytes, int] = {}
    for row in np.flatnonzero(count[head.ravel()] > 1).tolist():
        digest = hashlib.blake2b(vectors[row].tobytes(), digest_size=16).digest()
        first[row] = known.setdefault(digest, row)
    new = first == np.arange(len(vectors))
    return (vectors if new.all() else vectors[new]), (np.cumsum(new) - 1)[first]
