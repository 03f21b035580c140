"""What one training step sees: named views, and who is right or wrong for whom."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64, Shaped

from sentemb_core.documents import Documents, Tokens

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


def first(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The first sentence of every row."""
    return view_of(corpus, draw.first, draw.group)


def second(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The second sentence of every row."""
    return view_of(corpus, draw.second, draw.group)


def view_of(
    corpus: Documents,
    sentences: Int64[np.ndarray, " rows"],
    group: Int64[np.ndarray, " rows"],
    tokens: list[Tokens] | None = None,
) -> View:
    """A view made from these sentences; `tokens` replaces their own."""
    return View(
        tokens=corpus.tokens(sentences) if tokens is None else tokens,
        document=corpus.document_of[sentences],
        group=group,
        text=corpus.text_hashes[sentences],
    )


def extents(corpus: Documents, documents: Int64[np.ndarray, " rows"]) -> list[tuple[int, int]]:
    """First sentence of each document, and the first one behind it."""
    begins, ends = corpus.offsets[documents], corpus.offsets[documents + 1]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def sentences_of(corpus: Documents, rows: list[Int64[np.ndarray, " _"]]) -> list[list[Tokens]]:
    """The whole sentences that each row names; the corpus is asked once."""
    sentences = corpus.uncut_tokens(np.concatenate(rows))
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return [sentences[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def joined(sentences: list[Tokens], kept: slice, *, special_tokens: bool) -> Tokens:
    """One text of several sentences, cut to the tokens `kept` of its content.

    Where every sentence begins and ends with a special token, the text keeps one of each.
    """
    if not special_tokens:
        return np.concatenate(sentences)[kept]
    inner = np.concatenate([sentence[1:-1] for sentence in sentences])[kept]
    return np.concatenate([sentences[0][:1], inner, sentences[0][-1:]])


def text_hashes(rows: list[Tokens]) -> Int64[np.ndarray, " rows"]:
    """Equal for equal texts; the corpus's own hashes of sentences are others."""
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64, copy=False)


def alone(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
    """The first sentence by itself; its wording is that of a joined text of just this sentence."""
    wording = text_hashes(corpus.uncut_tokens(draw.first))
    return replace(first(corpus, draw, rng), wording=wording)


def enough(lengths: Int[np.ndarray, " sentences"], budget: int) -> int:
    """How many of these sentences, from the first on, fill the budget; all if they do not."""
    full = np.cumsum(lengths) >= budget
    return int(full.argmax()) + 1 if full.any() else len(lengths)
