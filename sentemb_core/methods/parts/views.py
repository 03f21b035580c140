"""Views and batches: the token sequences of a training step, and which rows are positives."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64, Shaped

from sentemb_core.documents import Documents, Tokens

IGNORED = -100
"""A target without a loss (torch's `ignore_index`)."""


@dataclass(frozen=True)
class View:
    """Token sequences under one name. Rows of two views with the same `group` are positives.

    Attributes:
        tokens: Token ids that the encoder reads.
        document: Document of each row.
        group: Group of each row.
        text: Hash of the sentence behind a row, so that two perturbed forms of one sentence count
            as duplicates.
        wording: Hash of the row's own text, if it differs from `text`: a slice of it, its context.
            None: `text`.
        owner: Rows of one owner are parts of one sequence (segments of a text, positives of an
            anchor); owners count from 0 in the order of the draw. None: each row is its own.
        weight: Weight of a row in its owner; the weights of an owner add up to 1.
        frame: Number of non-content tokens at both ends of each row: special tokens, a prompt.
        inputs: Token ids for an auxiliary network in place of `tokens`.
        targets: Token ids to predict, `IGNORED` elsewhere.
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
    """The views of one step, and their number of positive pairs."""

    views: Mapping[str, View]
    pairs: int

    @property
    def texts(self) -> int:
        """Return the number of rows that an encoder reads."""
        return sum(len(view.tokens) for view in self.views.values())


@dataclass(frozen=True)
class Draw:
    """The sentences of a step: row r pairs `first[r]` with `second[r]` under `group[r]`.

    In pair batches every pair has its own group. In cluster batches a group is a cluster, and first
    and second are the same sentences.
    """

    first: Int64[np.ndarray, " rows"]
    second: Int64[np.ndarray, " rows"]
    group: Int64[np.ndarray, " rows"]


ViewMaker = Callable[[Documents, Draw, np.random.Generator], View]


def owners(view: View) -> View:
    """Return one row for every owner of `view`: its vector is the sum of their vectors.

    Its wording is a sum, too.
    """
    assert view.owner is not None, "a view that is added up names its owners"
    first = np.unique(view.owner, return_index=True)[1]
    wording = None if view.wording is None else np.add.reduceat(view.wording, first)
    return View([], view.document[first], view.group[first], view.text[first], wording)


def positives(anchors: View, candidates: View) -> Bool[np.ndarray, "n m"]:
    """Return the mask of rows of one group; a row of a view is not its own positive."""
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
    """Return the mask of rows of other documents and texts (mutual, section 3.1).

    Not negatives of an anchor: its own document (unless `within_document`), its duplicates, and
    duplicates of its positives.
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
    """Return which candidates share the hash of an anchor or of one of its positives."""
    n = len(anchors)
    texts = np.unique(np.concatenate([anchors, candidates]), return_inverse=True)[1]
    right = np.zeros((n, texts.max(initial=-1) + 1), dtype=bool)
    right[np.arange(n), texts[:n]] = True
    anchor, partner = np.nonzero(positive)
    right[anchor, texts[n:][partner]] = True
    return right[:, texts[n:]]


@dataclass(frozen=True)
class Content:
    """All tokens of all rows, concatenated.

    Attributes:
        ids: The tokens.
        row: The row of each token.
        inner: Whether a token is content: neither special token nor prompt.
        lengths: Number of tokens of every row.
    """

    ids: Int64[np.ndarray, " tokens"]
    row: Int64[np.ndarray, " tokens"]
    inner: Bool[np.ndarray, " tokens"]
    lengths: Int64[np.ndarray, " rows"]

    @property
    def counts(self) -> Int64[np.ndarray, " rows"]:
        """Return the number of content tokens of every row."""
        return np.bincount(self.row[self.inner], minlength=len(self.lengths))


def content_of(rows: list[Tokens], frame: tuple[int, int] = (0, 0)) -> Content:
    """Return the concatenated rows; `frame` tokens at both ends of each are not content."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(rows)), lengths)
    place = np.arange(int(lengths.sum()))
    inner = (place >= (ends - lengths)[row] + frame[0]) & (place < ends[row] - frame[1])
    ids = np.concatenate(rows) if rows else place
    return Content(ids, row, inner, lengths)


def frame_of(view: View, *, special_tokens: bool) -> tuple[int, int]:
    """Return the non-content tokens at both ends: the view's own frame, else its special tokens."""
    return view.frame if any(view.frame) else (int(special_tokens), int(special_tokens))


def rows_of(ids: Int64[np.ndarray, " tokens"], lengths: Int64[np.ndarray, " rows"]) -> list[Tokens]:
    """Return rows of these lengths: the inverse of `content_of`."""
    ends = np.cumsum(lengths).tolist()
    return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def ranks(group: Int64[np.ndarray, " n"], key: Shaped[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Return the rank of every element by `key` in its group, from 0."""
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
    """Return a view of these sentences; `tokens` replaces their own tokens."""
    return View(
        tokens=corpus.tokens(sentences) if tokens is None else tokens,
        document=corpus.document_of[sentences],
        group=group,
        text=corpus.text_hashes[sentences],
    )


def extents(corpus: Documents, documents: Int64[np.ndarray, " rows"]) -> list[tuple[int, int]]:
    """Return the first sentence of each document, and the first sentence after it."""
    begins, ends = corpus.offsets[documents], corpus.offsets[documents + 1]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def sentences_of(corpus: Documents, rows: list[Int64[np.ndarray, " _"]]) -> list[list[Tokens]]:
    """Return the untruncated sentences of each row, with one query to the corpus."""
    sentences = corpus.uncut_tokens(np.concatenate(rows))
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return [sentences[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def joined(sentences: list[Tokens], kept: slice, *, special_tokens: bool) -> Tokens:
    """Return several sentences as one text, cut to the content tokens `kept`.

    If sentences start and end with a special token, the text keeps one at each end.
    """
    if not special_tokens:
        return np.concatenate(sentences)[kept]
    inner = np.concatenate([sentence[1:-1] for sentence in sentences])[kept]
    return np.concatenate([sentences[0][:1], inner, sentences[0][-1:]])


def text_hashes(rows: list[Tokens]) -> Int64[np.ndarray, " rows"]:
    """Return hashes that are equal for equal rows; the corpus's hashes differ from them."""
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64, copy=False)


def alone(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
    """The first sentence; its wording equals that of a joined text of this sentence."""
    wording = text_hashes(corpus.uncut_tokens(draw.first))
    return replace(first(corpus, draw, rng), wording=wording)


def enough(lengths: Int[np.ndarray, " sentences"], budget: int) -> int:
    """Return how many of the first sentences fill the budget; all if they do not."""
    full = np.cumsum(lengths) >= budget
    return int(full.argmax()) + 1 if full.any() else len(lengths)
