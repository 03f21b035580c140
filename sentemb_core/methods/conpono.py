"""CONPONO as in mutual (Iter et al. 2020): a sentence predicts its neighbours."""

from sentemb_core.config.methods import CONPONO
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.heads import bilinear
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import neighbours
from sentemb_core.methods.parts.views import first, second


def conpono(settings: CONPONO, _: Encoder) -> Method:
    """The isolated bi-encoder of the code, with one sentence of context and W_k = I."""
    mapped = settings.bilinear
    term = contrast("anchor", "positive", settings.temperature, bilinear=mapped)
    return Method(
        name="conpono",
        pairs=neighbours(settings.window),
        views={"anchor": first, "positive": second},
        terms={"contrast": (1.0, term)},
        networks=(lambda encoder: {"bilinear": bilinear(encoder.dim)}) if mapped else None,
    )
