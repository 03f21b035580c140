"""Masked language modelling: some tokens are hidden, and have to be told."""

from dataclasses import dataclass, replace

import numpy as np

from sentemb_core.documents import Documents, Tokens
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.views import IGNORED, Draw, View, ViewMaker, content_of, rows_of


@dataclass(frozen=True)
class Masking:
    """BERT's noise: of the chosen tokens 80 % become the mask, 10 % any token, 10 % stay.

    Attributes:
        rate: Share of tokens that are chosen.
        mask_id: Of [MASK].
        special: Ids that are never chosen.
        vocabulary: Number of ids.
    """

    rate: float
    mask_id: int
    special: tuple[int, ...]
    vocabulary: int

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise RecipeError(
                f"A masking rate is above 0 and below 1; found {self.rate}. BERT uses .15; leave "
                "the term out for 0"
            )


def masked(text: ViewMaker, masking: Masking) -> ViewMaker:
    """`text` with noise, for the encoder itself to read; targets are the chosen tokens."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        tokens, targets = _noisy(seen.tokens, masking, rng)
        return replace(seen, tokens=tokens, targets=targets)

    return view


def with_masked_inputs(text: ViewMaker, masking: Masking) -> ViewMaker:
    """`text` as it is for the encoder, and with noise for an auxiliary network."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        inputs, targets = _noisy(seen.tokens, masking, rng)
        return replace(seen, inputs=inputs, targets=targets)

    return view


def _noisy(
    rows: list[Tokens], masking: Masking, rng: np.random.Generator
) -> tuple[list[Tokens], list[Tokens]]:
    """The rows with noise, and what stood where it was chosen (`IGNORED` elsewhere)."""
    content = content_of(rows)
    n = len(content.ids)
    chosen = (rng.random(n) < masking.rate) & ~np.isin(content.ids, masking.special)
    fate = rng.random(n)
    noisy = np.where(chosen & (fate < 0.8), masking.mask_id, content.ids)
    other = chosen & (fate >= 0.9)
    noisy[other] = rng.integers(0, masking.vocabulary, int(other.sum()))
    targets = np.where(chosen, content.ids, IGNORED)
    return rows_of(noisy, content.lengths), rows_of(targets, content.lengths)
