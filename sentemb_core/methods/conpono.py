"""CONPONO as seed 000 needs it (Iter et al. 2020): a sentence predicts its neighbours."""

from sentemb_core.configs import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.sentences import first, second


def conpono(config: TrainingConfig, encoder: Encoder) -> Method:
    """Isolated bi-encoder, one sentence of context, W_k = I (METHODS.md 1.6)."""
    return Method(
        name="conpono",
        pairs=sources.neighbours(config.window),
        views={"anchor": first, "positive": second},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", config.temperature, encoder.similarity),
            )
        },
    )
