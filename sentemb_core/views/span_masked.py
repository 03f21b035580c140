"""Random span masking (Mirror-BERT, Liu et al. 2021): a few characters of a text are hidden."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int64

from sentemb_core.errors import RecipeError
from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import frame_of

SHORTEST = 30
"""Characters of a text below which the official code masks nothing."""

CONTINUES = "##"
"""How WordPiece (BERT) marks all pieces of a word but the first."""

WORD_BEGINS = "\u2581"
"""SentencePiece's and our own marker; ours stands before punctuation, too."""

SPACE_BYTE = "\u0120"
"""Byte-level BPE's letter for a space of the text."""


def span_masked(
    text: ViewMaker,
    pieces: Sequence[str],
    mask_id: int,
    *,
    special_tokens: bool,
    span: int = 5,
) -> ViewMaker:
    """One mask in place of the tokens that a random span of characters touches.

    Deviation: the paper's span cuts words and leaves their stumps; here a touched token goes as a
    whole, as the corpus holds tokens. The official code hides the first occurrence of the span's
    characters; here it is the drawn one.

    Args:
        text: Whose tokens.
        pieces: Every token id as it stands in a text (see `spelt`).
        mask_id: Of [MASK].
        special_tokens: Rows begin and end with one, which is never hidden.
        span: Characters; 0 hides nothing.

    Raises:
        RecipeError: It is below 0.
    """
    if span < 0:
        raise RecipeError(f"A span has a length; found {span} characters: take 5 as Mirror-BERT")
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    spaces = np.fromiter((piece.startswith(" ") for piece in pieces), np.int64, len(pieces))

    def ends(content: Tokens) -> Int64[np.ndarray, " pieces"]:
        """Characters of the text up to each piece's end; nothing stands before the first."""
        return np.cumsum(lengths[content]) - spaces[content[:1]].sum()

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        frame = frame_of(seen, special_tokens=special_tokens)
        chances = rng.random(len(seen)).tolist()
        tokens = [
            _hidden(row, frame[0], ends(row[frame[0] : len(row) - frame[1]]), mask_id, span, chance)
            for row, chance in zip(seen.tokens, chances, strict=True)
        ]
        return replace(seen, tokens=tokens)

    return view


def spelt(vocabulary: Sequence[str]) -> list[str]:
    """Each token as it stands in a text: behind a space where it begins a word.

    Knows WordPiece (`##ing`) and the space markers of byte-level BPE and SentencePiece. Where the
    vocabulary cannot tell, punctuation follows its word directly.
    """
    if usual_mark(vocabulary) == CONTINUES:
        vocabulary = [
            piece.removeprefix(CONTINUES) if piece.startswith(CONTINUES) else WORD_BEGINS + piece
            for piece in vocabulary
        ]
    return [_without_marker(piece) for piece in vocabulary]


def usual_mark(vocabulary: Sequence[str]) -> str:
    """The mark of words that most pieces carry: a few of RoBERTa's begin with WordPiece's, too.

    WordPiece's own where no piece has any: then every token is a word.
    """
    marks = (CONTINUES, WORD_BEGINS, SPACE_BYTE)
    return max(marks, key=lambda mark: sum(piece.startswith(mark) for piece in vocabulary))


def _without_marker(piece: str) -> str:
    if piece.startswith(WORD_BEGINS) and _is_punctuation(piece[1:]):
        return piece[1:]
    return piece.replace(WORD_BEGINS, " ").replace(SPACE_BYTE, " ")


def _is_punctuation(piece: str) -> bool:
    return len(piece) == 1 and unicodedata.category(piece).startswith("P")


def _hidden(
    row: Tokens,
    begin: int,
    ends: Int64[np.ndarray, " pieces"],
    mask_id: int,
    span: int,
    chance: float,
) -> Tokens:
    """The row, whose content begins at `begin`, without the pieces that a span touches."""
    total = int(ends[-1]) if len(ends) else 0
    if span == 0 or total < SHORTEST or total <= span:
        return row
    start = int(chance * (total - span))
    first, last = np.searchsorted(ends, [start, start + span - 1], side="right").tolist()
    return np.concatenate([row[: begin + first], [mask_id], row[begin + last + 1 :]])
