"""A text inside a prompt (SNCSE; PromptBERT): the encoder reads a sentence about it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sentemb_core.errors import RecipeError
from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import frame_of


def prompted(
    text: ViewMaker,
    prefix: Sequence[int],
    suffix: Sequence[int],
    max_length: int,
    *,
    special_tokens: bool,
) -> ViewMaker:
    """`prefix`, the content of `text`, `suffix`, all inside its special tokens.

    Args:
        text: What the prompt is about; cut at its end where the whole would be too long.
        prefix: Token ids before it, without special tokens.
        suffix: Token ids behind it, the mask's among them (SNCSE: `" means [MASK] .`).
        max_length: Tokens of a row with everything in it (SNCSE: 32).
        special_tokens: Rows begin and end with one.

    Raises:
        RecipeError: The prompt leaves no room for a text.
    """
    before, after = np.asarray(prefix, np.int64), np.asarray(suffix, np.int64)
    room = max_length - len(before) - len(after) - 2 * special_tokens
    if room < 1:
        raise RecipeError(
            f"A prompt leaves room for the text; found one of {len(before) + len(after)} tokens "
            f"with {2 * special_tokens} special tokens for rows of {max_length}: raise max_length, "
            "or shorten the prompt"
        )

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = frame_of(seen, special_tokens=special_tokens)
        tokens = [
            np.concatenate(
                [
                    row[:left],
                    before,
                    row[left : len(row) - right][:room],
                    after,
                    row[len(row) - right :],
                ]
            )
            for row in seen.tokens
        ]
        return replace(seen, tokens=tokens, frame=(left + len(before), len(after) + right))

    return view
