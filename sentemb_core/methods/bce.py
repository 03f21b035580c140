"""SimCSE's pairs with a binary loss (product_thesis)."""

from sentemb_core.config.methods import BCE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.logistic import binary
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.simcse import require_dropout


def bce(settings: BCE, encoder: Encoder) -> Method:
    """Classify each pair by sigma(similarity / temperature): the own sentence or another.

    The printed power of a negative cosine is undefined (erratum E24).
    """
    require_dropout(encoder, "bce")
    term = binary("anchor", "positive", settings.temperature, encoder.similarity)
    return Method(
        name="bce",
        pairs=identity,
        views={"anchor": first, "positive": first},
        terms={"binary": (1.0, term)},
    )
