"""Views and batches: the token sequences of a training step, and which rows are positives."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64, Shaped

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
        frame: Number of non-content tokens at both ends of each row: special tokens, a prompt.
        wording: Hash of the row's own text, if it differs from `text`: a slice of it, its context.
            None: `text`.
        owner: Rows of one owner are parts of one sequence (segments of a text, positives of an
            anchor); owners count from 0 in the order of the draw. None: each row is its own.
        weight: Weight of a row in its owner; the weights of an owner add up to 1.
        inputs: Token ids for an auxiliary network in place of `tokens`.
        targets: Token ids to predict, `IGNORED` elsewhere.
    """

    tokens: list[Tokens]
    document: Int64[np.ndarray, " rows"]
    group: Int64[np.ndarray, " rows"]
    text: Int64[np.ndarray, " rows"]
    frame: tuple[int, int] = (0, 0)
    wording: Int64[np.ndarray, " rows"] | None = None
    owner: Int64[np.ndarray, " rows"] | None = None
    weight: Float64[np.ndarray, " rows"] | None = None
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
    return View([], view.document[first], view.group[first], view.text[first], wording=wording)


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


def content_of(view: View) -> Content:
    """Return all tokens of a view; those of its frame are not content."""
    lengths = np.fromiter(map(len, view.tokens), np.int64, len(view.tokens))
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(int(lengths.sum()))
    left, right = view.frame
    inner = (place >= (ends - lengths)[row] + left) & (place < ends[row] - right)
    ids = np.concatenate(view.tokens) if view.tokens else place
    return Content(ids, row, inner, lengths)


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
    edge = int(corpus.special_tokens)
    return View(
        tokens=corpus.tokens(sentences) if tokens is None else tokens,
        document=corpus.document_of[sentences],
        group=group,
        text=corpus.text_hashes[sentences],
        frame=(edge, edge),
    )


def extents(corpus: Documents, documents: Int64[np.ndarray, " rows"]) -> list[tuple[int, int]]:
    """Return the first sentence of each document, and the first sentence after it."""
    begins, ends = corpus.offsets[documents], corpus.offsets[documents + 1]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def content_lengths(corpus: Documents, begin: int, end: int) -> Int32[np.ndarray, " sentences"]:
    """Return the number of content tokens of sentences `begin` to `end` - 1, not truncated."""
    return corpus.uncut_lengths[begin:end] - 2 * corpus.special_tokens


def joined_texts(
    corpus: Documents, rows: Sequence[Int64[np.ndarray, " _"]], kept: Sequence[slice]
) -> list[Tokens]:
    """Return the untruncated sentences of each row as one text, cut to the content tokens `kept`.

    If sentences start and end with a special token, the text keeps one at each end.
    """
    found = iter(corpus.uncut_tokens(np.concatenate(rows)))  # one query for all rows
    edge = int(corpus.special_tokens)
    texts: list[Tokens] = []
    for row, cut in zip(rows, kept, strict=True):
        own = list(islice(found, len(row)))
        inner = np.concatenate([sentence[edge : len(sentence) - edge] for sentence in own])[cut]
        texts.append(np.concatenate([own[0][:edge], inner, own[-1][len(own[-1]) - edge :]]))
    return texts


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
