"""Contrastive Tension (Carlsson et al. 2021): two encoders agree on a sentence, and on no other."""

from sentemb_core.config.methods import CT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.copies import twin
from sentemb_core.methods.method import Method
from sentemb_core.methods.terms.logistic import tension
from sentemb_core.methods.tokenizer_tools import require_transformer
from sentemb_core.pairs import sources
from sentemb_core.readers.networks import by_twin
from sentemb_core.views.sentences import first


def ct(settings: CT, encoder: Encoder) -> Method:
    """A logistic loss over inner products of the encoder's vectors and its twin's, no dropout."""
    require_transformer(encoder, "ct")
    return Method(
        name="ct",
        pairs=sources.identity,
        views={"anchor": first, "other": first},
        readers={"other": by_twin("twin")},
        terms={"tension": (1.0, tension("anchor", "other", rivals=settings.negatives))},
        networks=lambda encoder: {"twin": twin(encoder)},
        dropout=False,
    )
