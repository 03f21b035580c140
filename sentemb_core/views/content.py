"""The rows of a view as one array, so that chance is drawn for all tokens at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from sentemb_core.pairs.documents import Tokens
from sentemb_core.views.batch import View


@dataclass(frozen=True)
class Content:
    """All tokens of all rows, one after the other.

    Attributes:
        ids: The tokens.
        row: Whose they are.
        inner: Whether they are content: neither special tokens nor a prompt.
        lengths: Tokens of every row.
    """

    ids: Int64[np.ndarray, " tokens"]
    row: Int64[np.ndarray, " tokens"]
    inner: Bool[np.ndarray, " tokens"]
    lengths: Int64[np.ndarray, " rows"]

    @property
    def counts(self) -> Int64[np.ndarray, " rows"]:
        """Content tokens of every row."""
        return np.bincount(self.row[self.inner], minlength=len(self.lengths))


def content_of(rows: list[Tokens], frame: tuple[int, int] = (0, 0)) -> Content:
    """The rows flat; `frame` tokens at both ends of each are no content."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(rows)), lengths)
    place = np.arange(int(lengths.sum()))
    inner = (place >= (ends - lengths)[row] + frame[0]) & (place < ends[row] - frame[1])
    ids = np.concatenate(rows) if rows else place
    return Content(ids, row, inner, lengths)


def frame_of(view: View, *, special_tokens: bool) -> tuple[int, int]:
    """Tokens at both ends that are no content: what the view states, else its special tokens."""
    return view.frame if any(view.frame) else (int(special_tokens), int(special_tokens))


def rows_of(ids: Int64[np.ndarray, " tokens"], lengths: Int64[np.ndarray, " rows"]) -> list[Tokens]:
    """The inverse of `content_of`, for rows of these lengths."""
    ends = np.cumsum(lengths).tolist()
    return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def ranks(group: Int64[np.ndarray, " n"], key: Shaped[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Rank of every element by `key` within its group, counted from 0."""
    order = np.lexsort((key, group))
    ordered = group[order]
    found = np.empty(len(group), dtype=np.int64)
    found[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return found
