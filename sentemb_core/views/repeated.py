"""Word repetition (ESimCSE, Wu et al. 2022): length is no sign of meaning."""

from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Int64

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import Content, content_of, frame_of, ranks, rows_of

MOST = 10
"""The official code draws fewer repetitions than this, however long a text is."""


def repeated(
    text: ViewMaker,
    rate: float,
    *,
    special_tokens: bool,
    longest: int | None = None,
    rule: Literal["code", "paper"] = "code",
) -> ViewMaker:
    """Some content tokens of `text` stand twice, in place; a text may outgrow its limit by them.

    Args:
        text: Whose tokens.
        rate: rho. ESimCSE's code: .32 for BERT.
        special_tokens: Rows begin and end with one, which is never repeated.
        longest: Tokens a row may have afterwards: positions of the encoder.
        rule: How many, always uniform: `code` from 0 to min(10, int(rho L)) - 1 with L counting
            special tokens; `paper` from 0 to max(2, int(rho N)) with N counting content.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        content = content_of(seen.tokens, frame_of(seen, special_tokens=special_tokens))
        bound = _first_too_many(content, rate, rule)
        count = np.minimum(rng.integers(0, bound), content.counts)
        if longest is not None:
            count = np.minimum(count, np.maximum(0, longest - content.lengths))
        key = np.where(content.inner, rng.random(len(content.ids)), np.inf)
        twice = ranks(content.row, key) < count[content.row]
        return replace(
            seen, tokens=rows_of(np.repeat(content.ids, 1 + twice), content.lengths + count)
        )

    return view


def _first_too_many(
    content: Content, rate: float, rule: Literal["code", "paper"]
) -> Int64[np.ndarray, " rows"]:
    """The least number of repetitions that is never drawn."""
    if rule == "paper":
        return 1 + np.maximum(2, (rate * content.counts).astype(np.int64))
    return np.clip((rate * content.lengths).astype(np.int64), 1, MOST)
