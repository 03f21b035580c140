"""Masking for masked language modelling."""

from dataclasses import dataclass, replace

import numpy as np

from sentemb_core.documents import Documents, Tokens
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.views import IGNORED, Draw, View, ViewMaker, content_of, rows_of


@dataclass(frozen=True)
class Masking:
    """BERT's noise: of the chosen tokens 80 % become the mask, 10 % a random token, 10 % stay.

    Attributes:
        rate: Share of chosen tokens.
        mask_id: Id of [MASK].
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
    """Return a view of `text` with noise for the encoder; targets are the chosen tokens."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        tokens, targets = _noisy(seen.tokens, masking, rng)
        return replace(seen, tokens=tokens, targets=targets)

    return view


def with_masked_inputs(text: ViewMaker, masking: Masking) -> ViewMaker:
    """Return a view of `text` without noise, and with noisy `inputs` for an auxiliary network."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        inputs, targets = _noisy(seen.tokens, masking, rng)
        return replace(seen, inputs=inputs, targets=targets)

    return view


def _noisy(
    rows: list[Tokens], masking: Masking, rng: np.random.Generator
) -> tuple[list[Tokens], list[Tokens]]:
    """Return the rows with noise, and the chosen tokens as targets (`IGNORED` elsewhere)."""
    content = content_of(rows)
    n = len(content.ids)
    chosen = (rng.random(n) < masking.rate) & ~np.isin(content.ids, masking.special)
    fate = rng.random(n)
    noisy = np.where(chosen & (fate < 0.8), masking.mask_id, content.ids)
    other = chosen & (fate >= 0.9)
    noisy[other] = rng.integers(0, masking.vocabulary, int(other.sum()))
    targets = np.where(chosen, content.ids, IGNORED)
    return rows_of(noisy, content.lengths), rows_of(targets, content.lengths)
