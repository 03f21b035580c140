"""Word repetition (ESimCSE, Wu et al. 2022): length is no sign of meaning."""

from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Int64

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import content_of, frame_of, ranks, rows_of

TOO_MANY = 10
"""The official code draws fewer repetitions than this, however long a text is."""

Rule = Literal["code", "paper"]


def repeated(
    text: ViewMaker,
    rate: float,
    *,
    special_tokens: bool,
    longest: int | None = None,
    rule: Rule = "code",
) -> ViewMaker:
    """Some content tokens of `text` stand twice, in place; a text may outgrow its limit by them.

    Args:
        text: Whose tokens.
        rate: rho. ESimCSE's code: .32 for BERT; 0 repeats nothing.
        special_tokens: Rows begin and end with one, which is never repeated.
        longest: Tokens a row may have afterwards: positions of the encoder.
        rule: How many, always uniform from 0 to `most_repeated`.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        content = content_of(seen.tokens, frame_of(seen, special_tokens=special_tokens))
        most = most_repeated(content.lengths, content.counts, rate, rule)
        count = np.minimum(rng.integers(0, most + 1), content.counts)
        if longest is not None:
            count = np.minimum(count, np.maximum(0, longest - content.lengths))
        key = np.where(content.inner, rng.random(len(content.ids)), np.inf)
        twice = ranks(content.row, key) < count[content.row]
        return replace(
            seen, tokens=rows_of(np.repeat(content.ids, 1 + twice), content.lengths + count)
        )

    return view


def most_repeated(
    lengths: Int64[np.ndarray, " rows"],
    counts: Int64[np.ndarray, " rows"],
    rate: float,
    rule: Rule,
) -> Int64[np.ndarray, " rows"]:
    """Of rows of `lengths` tokens, `counts` of them content.

    `code`: min(10, int(rho L)) - 1 of L tokens; `paper`: max(2, int(rho N)) of N content tokens.
    None at rate 0, where the paper's rule as printed has two.
    """
    if rate == 0:
        return np.zeros_like(counts)
    if rule == "paper":
        return np.maximum(2, (rate * counts).astype(np.int64))
    return np.clip((rate * lengths).astype(np.int64), 1, TOO_MANY) - 1
