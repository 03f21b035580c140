"""ESimCSE (Wu et al. 2022): repeated sub-words, and a queue of momentum vectors as negatives."""

import logging
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from sentemb_core.config.methods import ESimCSE
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.methods.parts.copies import MomentumCopy
from sentemb_core.methods.parts.heads import mlp
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Learner, Method, Vectors, read_by
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import require_frame
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    content_of,
    first,
    ranks,
    rows_of,
)
from sentemb_core.methods.simcse import require_dropout

log = logging.getLogger(__name__)


def esimcse(
    settings: ESimCSE, encoder: Encoder, text: ViewMaker = first, longest: int | None = None
) -> Method:
    """SimCSE with a positive that may be longer than its anchor, and negatives of past steps.

    Rows of `text` have at most `longest` tokens; None: `encoder.max_length`, as for a sentence.
    """
    require_dropout(encoder, "esimcse")
    require_frame(encoder)
    warn_of_few_positions(settings, encoder, longest or encoder.max_length)
    longer = repeated(text, settings.repetition, longest=encoder.positions, rule=settings.rule)
    term = contrast("anchor", "positive", settings.temperature, queue=settings.queue > 0)
    method = Method(
        name="esimcse",
        pairs=identity,
        views={"anchor": text, "positive": longer},
        terms={"contrast": (1.0, term)},
        head=mlp,
    )
    if not settings.queue:
        return method
    return method.joined(
        views={"key": text},
        forward_passes={"key": by_momentum},
        networks=lambda encoder: {
            "momentum": MomentumCopy(encoder, settings.momentum, settings.momentum_init),
            "queue": Queue(settings.queue, encoder.dim),
        },
        after_step=remember,
    )


def warn_of_few_positions(settings: ESimCSE, encoder: Encoder, longest: int) -> None:
    """Warn if long rows leave no positions for repeated tokens."""
    lengths = np.array([longest])
    counts = lengths - 2 * encoder.framed
    most = int(most_repeated(lengths, counts, settings.repetition, settings.rule)[0])
    if encoder.positions is not None and encoder.positions < longest + most:
        log.warning(
            "rows of %d tokens can repeat at most %d tokens, not %d, with %d positions; "
            "set encoder.positions=%d for random weights, or lower encoder.max_length (for HiCL "
            "method.segment)",
            longest,
            encoder.positions - longest,
            most,
            encoder.positions,
            longest + most,
        )


def by_momentum(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
    """A forward pass through the momentum encoder, without gradient and dropout."""
    with torch.no_grad():
        return read_by(cast(Encoder, learner.networks["momentum"]), ids, mask, layers)


def remember(learner: Learner, vectors: Vectors) -> None:
    """Push the step's keys to the queue, and update the momentum encoder."""
    cast(Queue, learner.networks["queue"]).push(vectors["key"])
    cast(MomentumCopy, learner.networks["momentum"]).follow(learner.encoder)


TOO_MANY = 10
"""Upper bound of the repetitions in the official code, for any length."""

Rule = Literal["code", "paper"]


def repeated(
    text: ViewMaker,
    rate: float,
    *,
    longest: int | None = None,
    rule: Rule = "code",
) -> ViewMaker:
    """Return a view of `text` with some content tokens repeated in place.

    Rows may exceed the limit of `text`, but not `longest` tokens: the positions of the encoder.
    `rule` bounds the uniform draw, see `most_repeated`; rate 0 (rho) repeats nothing.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        content = content_of(seen)
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
    """Return the maximum number of repetitions of rows with `lengths` tokens and `counts` content.

    `code`: min(10, int(rho L)) - 1 for L tokens; `paper`: max(2, int(rho N)) for N content tokens.
    Rate 0 gives none, where the paper's printed rule gives two.
    """
    if rate == 0:
        return np.zeros_like(counts)
    if rule == "paper":
        return np.maximum(2, (rate * counts).astype(np.int64))
    return np.clip((rate * lengths).astype(np.int64), 1, TOO_MANY) - 1


class Queue(nn.Module):
    """The newest `size` vectors, in buffers, so that a checkpoint keeps them."""

    vectors: Tensor
    filled: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @property
    def keys(self) -> Float[Tensor, "filled dim"]:
        """The vectors, oldest first; the next push overwrites this memory."""
        return self.vectors[: int(self.filled)]

    @torch.no_grad()
    def push(self, vectors: Float[Tensor, "rows dim"]) -> None:
        """Add vectors; the oldest leave."""
        line = torch.cat([self.keys, vectors.to(self.vectors)])
        kept = line[max(0, len(line) - len(self.vectors)) :]
        self.vectors[: len(kept)] = kept
        self.filled.fill_(len(kept))
