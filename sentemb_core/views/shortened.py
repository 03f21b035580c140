"""The beginning of a text."""

from dataclasses import replace

import numpy as np

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import frame_of
from sentemb_core.views.joining import text_hashes


def shortened(text: ViewMaker, most: int, *, special_tokens: bool) -> ViewMaker:
    """`text` cut behind `most` content tokens, inside its frame.

    Texts that differ behind the cut alone are one text.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = frame_of(seen, special_tokens=special_tokens)
        ends = [len(row) - right for row in seen.tokens]
        tokens = [
            np.concatenate([row[: min(left + most, end)], row[end:]])
            for row, end in zip(seen.tokens, ends, strict=True)
        ]
        return replace(seen, tokens=tokens, text=text_hashes(tokens))

    return view
