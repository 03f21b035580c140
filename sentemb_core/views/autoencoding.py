"""Views of autoencoders: the text to tell again, and what is left of it to tell it from."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int64

from sentemb_core.errors import RecipeError
from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import IGNORED, Draw, View, ViewMaker
from sentemb_core.views.content import Content, content_of, frame_of, rows_of


def reconstructed(text: ViewMaker) -> ViewMaker:
    """`text` as an input whose own tokens are the decoder's targets (product_thesis)."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        return replace(seen, targets=[_told(row) for row in seen.tokens])

    return view


def deleted(
    text: ViewMaker,
    rate: float,
    *,
    special_tokens: bool,
    begins_word: Bool[np.ndarray, " vocabulary"] | None = None,
) -> ViewMaker:
    """`text` without many of its words; targets are all tokens (TSDAE, Wang et al. 2021).

    Args:
        text: Whose words.
        rate: Chance of each word to go, .6 in TSDAE; of a row's words one always stays.
        special_tokens: Rows begin and end with one, which always stays.
        begins_word: For every token id whether a word begins with it; the pieces of a word share
            its fate. None: every token is a word.

    Raises:
        RecipeError: All words would go.
    """
    if not 0 <= rate < 1:
        raise RecipeError(
            f"Deletion leaves some words to read; found rate {rate}: take .6 as TSDAE does, or 0"
        )

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        content = content_of(seen.tokens, frame_of(seen, special_tokens=special_tokens))
        word = _words(content, begins_word)
        chance = rng.random(int(word[-1]) + 1)
        last_hope = np.zeros(len(content.lengths))  # a row's largest draw stays, whatever it is
        np.maximum.at(last_hope, content.row[content.inner], chance[word[content.inner]])
        stays = (chance >= rate)[word] | (chance[word] == last_hope[content.row]) | ~content.inner
        lengths = np.bincount(content.row[stays], minlength=len(content.lengths))
        return replace(
            seen,
            tokens=rows_of(content.ids[stays], lengths),
            targets=[_told(row) for row in seen.tokens],
        )

    return view


def _told(row: Tokens) -> Tokens:
    """All but the first token, which a decoder is given to begin with."""
    return np.concatenate([[IGNORED], row[1:]])


def _words(
    content: Content, begins_word: Bool[np.ndarray, " vocabulary"] | None
) -> Int64[np.ndarray, " tokens"]:
    """Number of the word that every token belongs to; no word spans two rows."""
    if begins_word is None:
        return np.arange(len(content.ids))
    first = np.diff(content.inner, prepend=False) | (np.diff(content.row, prepend=-1) != 0)
    return np.cumsum(begins_word[content.ids] | first) - 1
