"""What one training step sees: named views, and who is right or wrong for whom."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sentemb_core.pairs.documents import Documents, Tokens

IGNORED = -100
"""A target that nobody must predict (torch's `ignore_index`)."""


@dataclass(frozen=True)
class View:
    """Token sequences under one name. Rows of two views with one `group` are positives.

    Attributes:
        tokens: What the encoder reads.
        document: Whose documents the rows come from.
        group: Who belongs together.
        text: Hash of the sentence a row was made from, so that two perturbed forms of one
            sentence still count as duplicates.
        wording: Hash of what a row itself says, where that is another text than `text`: a slice of
            it, its context. None: `text` is.
        owner: Rows of one owner are parts of one sequence (segments of a text, positives of one
            anchor); owners count from 0 in the order of the draw's rows. None: each its own.
        weight: Of a row within its owner; an owner's weights add up to 1.
        frame: Tokens at both ends of each row that are no content: special tokens, a prompt.
        inputs: What an auxiliary network reads in place of `tokens`.
        targets: Token ids that a network must predict, `IGNORED` where none.
    """

    tokens: list[Tokens]
    document: Int64[np.ndarray, " rows"]
    group: Int64[np.ndarray, " rows"]
    text: Int64[np.ndarray, " rows"]
    wording: Int64[np.ndarray, " rows"] | None = None
    owner: Int64[np.ndarray, " rows"] | None = None
    weight: Float64[np.ndarray, " rows"] | None = None
    frame: tuple[int, int] = (0, 0)
    inputs: list[Tokens] | None = None
    targets: list[Tokens] | None = None

    def __len__(self) -> int:
        return len(self.document)


@dataclass(frozen=True)
class Batch:
    """The views of one step, and how many positive pairs they hold."""

    views: Mapping[str, View]
    pairs: int

    @property
    def texts(self) -> int:
        """Rows that an encoder reads."""
        return sum(len(view.tokens) for view in self.views.values())


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


def owners(view: View) -> View:
    """A row for every owner of `view`, with nothing to read: its vector is a sum of theirs.

    So is its wording.
    """
    assert view.owner is not None, "a view that is added up names its owners"
    first = np.unique(view.owner, return_index=True)[1]
    wording = None if view.wording is None else np.add.reduceat(view.wording, first)
    return View([], view.document[first], view.group[first], view.text[first], wording)


def positives(anchors: View, candidates: View) -> Bool[np.ndarray, "n m"]:
    """Rows of one group; a row of a view is no positive of itself."""
    same = anchors.group[:, None] == candidates.group
    if anchors is candidates:
        np.fill_diagonal(same, val=False)
    return same


def negatives(
    anchors: View,
    candidates: View,
    positive: Bool[np.ndarray, "n m"],
    *,
    within_document: bool = False,
) -> Bool[np.ndarray, "n m"]:
    """Rows of other documents (mutual, section 3.1) with another text and another wording.

    Blocked for an anchor: its own document (unless `within_document`), a duplicate of itself, a
    duplicate of any of its positives.
    """
    others = ~_duplicates(anchors.text, candidates.text, positive)
    if anchors.wording is not None or candidates.wording is not None:
        others &= ~_duplicates(_wording(anchors), _wording(candidates), positive)
    if within_document:
        return others
    return others & (anchors.document[:, None] != candidates.document)


def _wording(view: View) -> Int64[np.ndarray, " rows"]:
    return view.text if view.wording is None else view.wording


def _duplicates(
    anchors: Int64[np.ndarray, " n"],
    candidates: Int64[np.ndarray, " m"],
    positive: Bool[np.ndarray, "n m"],
) -> Bool[np.ndarray, "n m"]:
    """Which candidates have the hash of an anchor, or of any of its positives."""
    n = len(anchors)
    texts = np.unique(np.concatenate([anchors, candidates]), return_inverse=True)[1]
    right = np.zeros((n, texts.max(initial=-1) + 1), dtype=bool)
    right[np.arange(n), texts[:n]] = True
    anchor, partner = np.nonzero(positive)
    right[anchor, texts[n:][partner]] = True
    return right[:, texts[n:]]
