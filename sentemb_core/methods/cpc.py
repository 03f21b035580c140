"""CPC as mutual needs it (van den Oord et al. 2018): a sentence and what precedes it."""

from sentemb_core.config.methods import CPC
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.bilinear import bilinear
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.ict import context_tokens
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.joining import alone
from sentemb_core.views.preceding import preceding


def cpc(settings: CPC, encoder: Encoder) -> Method:
    """Positive: the text before the sentence, nearest kept (mutual)."""
    past = preceding(
        context_tokens(settings.context_tokens, encoder), special_tokens=encoder.framed
    )
    term = contrast(
        "anchor",
        "positive",
        settings.temperature,
        encoder.similarity,
        bilinear=settings.bilinear,
    )
    return Method(
        name="cpc",
        pairs=sources.with_past,
        views={"anchor": alone, "positive": past},
        terms={"contrast": (1.0, term)},
        networks=(lambda encoder: {"bilinear": bilinear(encoder.dim)})
        if settings.bilinear
        else None,
    )
