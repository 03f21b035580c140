"""Random span masking (Mirror-BERT, Liu et al. 2021): a few characters of a text are hidden."""

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


def span_masked(
    text: ViewMaker,
    characters: Int64[np.ndarray, " vocabulary"],
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
        characters: Of every token id (see `piece_lengths`).
        mask_id: Of [MASK].
        special_tokens: Rows begin and end with one, which is never hidden.
        span: Characters; 0 hides nothing.
    """
    if span < 0:
        raise RecipeError(f"A span has a length; found {span} characters: take 5 as Mirror-BERT")

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        frame = frame_of(seen, special_tokens=special_tokens)
        chances = rng.random(len(seen)).tolist()
        tokens = [
            _hidden(row, frame, characters, mask_id, span, chance)
            for row, chance in zip(seen.tokens, chances, strict=True)
        ]
        return replace(seen, tokens=tokens)

    return view


def piece_lengths(vocabulary: Sequence[str]) -> Int64[np.ndarray, " vocabulary"]:
    """Characters of each token as it stands in a text, the space before a word included.

    Knows WordPiece (`##ing`) and the space markers of byte-level BPE and SentencePiece.
    """
    word_pieces = any(piece.startswith("##") for piece in vocabulary)
    spaced = [
        piece.removeprefix("##") if piece.startswith("##") or not word_pieces else f" {piece}"
        for piece in vocabulary
    ]
    return np.fromiter(map(len, spaced), np.int64, len(spaced))


def _hidden(
    row: Tokens,
    frame: tuple[int, int],
    characters: Int64[np.ndarray, " vocabulary"],
    mask_id: int,
    span: int,
    chance: float,
) -> Tokens:
    ends = np.cumsum(characters[row[frame[0] : len(row) - frame[1]]])
    total = int(ends[-1]) if len(ends) else 0
    if span == 0 or total < SHORTEST or total <= span:
        return row
    start = int(chance * (total - span))
    first, last = np.searchsorted(ends, [start, start + span - 1], side="right").tolist()
    return np.concatenate([row[: frame[0] + first], [mask_id], row[frame[0] + last + 1 :]])
