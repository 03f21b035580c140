"""Inverse cloze task (Lee et al. 2019, ORQA): a sentence looks for the document it comes from."""

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.method_settings import ICT
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.context import context
from sentemb_core.views.sentences import first


def ict(settings: ICT, encoder: Encoder) -> Method:
    """Positive: the text around the sentence, which mostly lacks it (METHODS.md 1.4)."""
    rest = context(
        settings.removal,
        context_tokens(settings.context_tokens, encoder),
        special_tokens=encoder.add_special_tokens,
    )
    return Method(
        name="ict",
        pairs=sources.cloze_queries,
        views={"anchor": first, "positive": rest},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", settings.temperature, encoder.similarity),
            )
        },
    )


def context_tokens(wanted: int, encoder: Encoder) -> int:
    """As many as the encoder has positions for, at most `wanted`."""
    return min(wanted, encoder.positions or wanted)
