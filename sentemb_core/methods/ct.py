"""Contrastive Tension (Carlsson et al. 2021): two encoders agree on the same sentence only."""

from sentemb_core.config.methods import CT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.copies import twin
from sentemb_core.methods.parts.forward_passes import by_twin
from sentemb_core.methods.parts.logistic import tension
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import require_transformer
from sentemb_core.methods.parts.views import first


def ct(settings: CT, encoder: Encoder) -> Method:
    """A logistic loss over inner products of the vectors of encoder and twin, without dropout."""
    require_transformer(encoder, "ct")
    return Method(
        name="ct",
        pairs=identity,
        views={"anchor": first, "other": first},
        forward_passes={"other": by_twin("twin")},
        terms={"tension": (1.0, tension("anchor", "other", rivals=settings.negatives))},
        networks=lambda encoder: {"twin": twin(encoder)},
        dropout=False,
    )
