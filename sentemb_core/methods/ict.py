"""Inverse cloze task (Lee et al. 2019, ORQA): a sentence looks for the document it comes from."""

from sentemb_core.configs import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.static import StaticTable
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.context import context
from sentemb_core.views.sentences import first

CONTEXT_TOKENS = 288
"""ORQA's block; seed 000 limits sentences to 32 tokens and says nothing of contexts."""


def ict(config: TrainingConfig, encoder: Encoder) -> Method:
    """Positive: the text around the sentence, which mostly lacks it (METHODS.md 1.4)."""
    rest = context(
        config.removal, _context_tokens(encoder), special_tokens=encoder.add_special_tokens
    )
    return Method(
        name="ict",
        pairs=sources.cloze_queries,
        views={"anchor": first, "positive": rest},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", config.temperature, encoder.similarity),
            )
        },
    )


def _context_tokens(encoder: Encoder) -> int:
    """As many as the encoder has positions for, at most ORQA's block."""
    if isinstance(encoder.backbone, StaticTable):
        return CONTEXT_TOKENS
    positions = getattr(encoder.backbone.config, "max_position_embeddings", CONTEXT_TOKENS)
    return min(CONTEXT_TOKENS, positions)
