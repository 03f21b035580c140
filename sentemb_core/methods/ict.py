"""Inverse cloze task (Lee et al. 2019, ORQA): a sentence finds its document."""

import logging
from dataclasses import replace

import numpy as np
from jaxtyping import Int, Int64
from torch import nn

from sentemb_core.config.methods import ICT, SHORTEST_CONTEXT
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.fine_tune import compared
from sentemb_core.methods.parts.heads import draw_weights
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import cloze_queries, identity
from sentemb_core.methods.parts.tokenizer_tools import require_frame
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    alone,
    extents,
    first,
    joined_texts,
    text_hashes,
    view_of,
)

log = logging.getLogger(__name__)


def ict(settings: ICT, encoder: Encoder) -> Method:
    """Positive: the text around the sentence, usually without it (ORQA), or its sentences' mean.

    If the context may lack the sentence, documents of one sentence are left out.
    """
    require_frame(encoder)
    width = settings.projection
    method = Method(
        name="ict",
        pairs=cloze_queries if settings.removal else identity,
        views={"anchor": first},
        terms={"contrast": (1.0, contrast("anchor", "positive", settings.temperature))},
        head=(lambda dim: projection(dim, width)) if width else None,
    )
    if settings.context_as == "text":
        most = context_tokens(settings.context_tokens, encoder) - 2 * encoder.framed
        views = {"anchor": alone, "positive": context(settings.removal, most)}
        return replace(method, views=views)
    around = surroundings(settings.removal, settings.context_tokens)
    return replace(
        method.joined(views={"sentences": around}, forward_passes={"sentences": compared}),
        aggregate={"positive": "sentences"},
    )


def context_tokens(wanted: int, encoder: Encoder) -> int:
    """Return `wanted`, limited by the encoder's positions; warn if it is limited.

    Raises:
        RecipeError: fewer than `SHORTEST_CONTEXT` positions.
    """
    held = min(wanted, encoder.positions or wanted)
    if held < SHORTEST_CONTEXT:
        raise RecipeError(
            f"A context needs at least {SHORTEST_CONTEXT} tokens; found method.context_tokens "
            f"{wanted} and {encoder.positions or 'unlimited'} positions. Raise "
            "method.context_tokens or encoder.positions, or start from another encoder"
        )
    if held < wanted:
        log.warning(
            "contexts limited to %d tokens by the encoder's positions (method.context_tokens: %d); "
            "encoder.positions sets them for random weights",
            held,
            wanted,
        )
    return held


def context(removal: float, most: int) -> ViewMaker:
    """Return a view of the sentences around the drawn one as one text, nearest first.

    The drawn sentence is removed with probability `removal` (ORQA: .9), so that the encoder learns
    meaning and wording.

    Args:
        removal: Probability of a context without its sentence.
        most: Limit of the text in content tokens (ORQA's code: 288 with special tokens).
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        around = _surroundings(corpus, draw, removal, most, corpus.uncut_lengths, rng)
        tokens = joined_texts(corpus, around, [slice(most)] * len(around))
        seen = view_of(corpus, draw.second, draw.group, tokens)
        return replace(seen, wording=text_hashes(tokens))

    return view


def surroundings(removal: float, most: int) -> ViewMaker:
    """Return a view of the same sentences as separate rows: parts of one sequence, equal weights.

    Args:
        removal: As in `context`.
        most: Limit of all rows together, in content tokens of rows that the encoder truncates.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        around = _surroundings(corpus, draw, removal, most, corpus.lengths, rng)
        sizes = np.array([len(sentences) for sentences in around])
        owner = np.repeat(np.arange(len(around)), sizes)
        sentences = np.concatenate(around)
        parts = view_of(corpus, draw.second[owner], draw.group[owner], corpus.tokens(sentences))
        wording = corpus.text_hashes[sentences]
        return replace(parts, wording=wording, owner=owner, weight=1 / sizes[owner])

    return view


def _surroundings(
    corpus: Documents,
    draw: Draw,
    removal: float,
    most: int,
    lengths: Int[np.ndarray, " sentences"],
    rng: np.random.Generator,
) -> list[Int64[np.ndarray, " _"]]:
    """Return the sentences of the context of every row, in document order."""
    removed = rng.random(len(draw.second)) < removal
    places = extents(corpus, corpus.document_of[draw.second])
    found: list[np.ndarray] = []
    for centre, gone, (begin, end) in zip(draw.second.tolist(), removed, places, strict=True):
        others = np.arange(begin, end)
        if gone:
            others = others[others != centre]
        nearest = others[np.argsort(np.abs(others - centre), kind="stable")]
        used = np.cumsum(lengths[nearest] - 2 * corpus.special_tokens)
        found.append(np.sort(nearest[: max(1, int((used <= most).sum()))]))
    return found


def projection(dim: int, width: int = 128) -> nn.Module:
    """Return a head [batch, dim] to [batch, width] (ORQA's code: dense, layer norm, dropout .1)."""
    head = nn.Sequential(nn.Linear(dim, width), nn.LayerNorm(width), nn.Dropout(0.1))
    draw_weights(head)
    return head
