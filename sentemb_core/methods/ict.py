"""Inverse cloze task (Lee et al. 2019, ORQA): a sentence looks for the document it comes from."""

import logging
from dataclasses import replace

from sentemb_core.config.methods import ICT, SHORTEST_CONTEXT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.projection import projection
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.fine_tune import compared
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.context import context, surroundings
from sentemb_core.views.joining import alone
from sentemb_core.views.sentences import first

log = logging.getLogger(__name__)


def ict(settings: ICT, encoder: Encoder) -> Method:
    """Positive: the text around the sentence, which mostly lacks it (ORQA), or its sentences' mean.

    Where it may lack it, a document of one sentence has no text around it and is left out.
    """
    width, special = settings.projection, encoder.framed
    method = Method(
        name="ict",
        pairs=sources.cloze_queries if settings.removal else sources.identity,
        views={"anchor": first},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", settings.temperature, encoder.similarity),
            )
        },
        head=(lambda dim: projection(dim, width)) if width else None,
    )
    if settings.context_as == "text":
        limit = context_tokens(settings.context_tokens, encoder)
        rest = context(settings.removal, limit, special_tokens=special)
        return replace(method, views={"anchor": alone, "positive": rest})
    around = surroundings(settings.removal, settings.context_tokens, special_tokens=special)
    return replace(
        method.joined(views={"sentences": around}, readers={"sentences": compared}),
        aggregate={"positive": "sentences"},
    )


def context_tokens(wanted: int, encoder: Encoder) -> int:
    """As many as the encoder has positions for, at most `wanted`; fewer are worth a warning.

    Raises:
        RecipeError: they are fewer than `SHORTEST_CONTEXT`.
    """
    held = min(wanted, encoder.positions or wanted)
    if held < SHORTEST_CONTEXT:
        raise RecipeError(
            f"A context has at least {SHORTEST_CONTEXT} tokens; found method.context_tokens "
            f"{wanted} and an encoder of {encoder.positions or 'unlimited'} positions: raise "
            "method.context_tokens or encoder.positions, or start from an encoder with more"
        )
    if held < wanted:
        log.warning(
            "contexts are cut to %d tokens, the encoder's positions, where method.context_tokens "
            "asks for %d: a transformer from random weights gets them by encoder.positions",
            held,
            wanted,
        )
    return held
