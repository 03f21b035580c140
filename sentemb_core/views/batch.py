"""What one training step sees: named views, and who is right or wrong for whom."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from sentemb_core.pairs.documents import Documents, Tokens


@dataclass(frozen=True)
class View:
    """Token sequences under one name. Rows of two views with one `group` are positives.

    `text` is the hash of the sentence a row was made from, so that two perturbed forms of one
    sentence still count as duplicates.
    """

    tokens: list[Tokens]
    document: Int64[np.ndarray, " rows"]
    group: Int64[np.ndarray, " rows"]
    text: Int64[np.ndarray, " rows"]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Batch:
    """The views of one step, and how many positive pairs they hold."""

    views: Mapping[str, View]
    pairs: int


@dataclass(frozen=True)
class Draw:
    """Sentences that a sampler chose: row r pairs `first[r]` with `second[r]` under `group[r]`.

    Pair batches give every pair its own group; in cluster batches a group is a cluster, and
    first and second are the same sentences.
    """

    first: Int64[np.ndarray, " rows"]
    second: Int64[np.ndarray, " rows"]
    group: Int64[np.ndarray, " rows"]


ViewMaker = Callable[[Documents, Draw, np.random.Generator], View]


def positives(anchors: View, candidates: View) -> Bool[np.ndarray, "n m"]:
    """Rows of one group; a row of a view is no positive of itself."""
    same = anchors.group[:, None] == candidates.group
    if anchors is candidates:
        np.fill_diagonal(same, val=False)
    return same


def negatives(
    anchors: View, candidates: View, positive: Bool[np.ndarray, "n m"]
) -> Bool[np.ndarray, "n m"]:
    """Rows of other documents (seed 000, section 3.1) with another text.

    Blocked for an anchor: its own document, a duplicate of itself, a duplicate of any of its
    positives.
    """
    n = len(anchors)
    texts = np.unique(np.concatenate([anchors.text, candidates.text]), return_inverse=True)[1]
    right = np.zeros((n, texts.max(initial=-1) + 1), dtype=bool)
    right[np.arange(n), texts[:n]] = True
    anchor, partner = np.nonzero(positive)
    right[anchor, texts[n:][partner]] = True
    return (anchors.document[:, None] != candidates.document) & ~right[:, texts[n:]]
