"""A table of positive pairs, and what self-annotation hands to it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from sentemb_core.pairs.documents import Documents


@dataclass(frozen=True)
class PairTable:
    """Unordered positive pairs of sentence indices; both ends lie in one document.

    A method whose second text is derived from the first (dropout, inverse cloze) has i = j. Where
    documents are copies of one, `document` names the one of each pair.
    """

    i: Int64[np.ndarray, " pairs"]
    j: Int64[np.ndarray, " pairs"]
    document: Int64[np.ndarray, " pairs"] | None = None

    def __len__(self) -> int:
        return len(self.i)


@dataclass(frozen=True)
class Annotation:
    """What an encoder found in the corpus: pairs (mutual, Eq. 4) and the clusters behind them.

    `labels` count from 0 within each document. Pair batches read i and j, cluster batches labels.
    """

    i: Int64[np.ndarray, " pairs"]
    j: Int64[np.ndarray, " pairs"]
    labels: Int32[np.ndarray, " sentences"]


PairSource = Callable[[Documents, Annotation | None], PairTable]
"""Held-out documents never yield a pair."""
