"""Unsupervised SimCSE (Gao et al. 2021): a sentence and itself under another dropout."""

from torch import nn

from sentemb_core.configs import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.mlp import mlp
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method
from sentemb_core.pairs import sources
from sentemb_core.views.sentences import first, second


def simcse(config: TrainingConfig, encoder: Encoder) -> Method:
    """Positive: the second pass over the same sentence. Negatives: the others' second passes."""
    if not any(isinstance(part, nn.Dropout) and part.p > 0 for part in encoder.modules()):
        raise RecipeError(
            f"simcse makes its two views by dropout; this encoder ({encoder.kind}) has none, so "
            "both views would be equal: take conpono or ict, or start from a transformer"
        )
    return Method(
        name="simcse",
        pairs=sources.identity,
        views={"anchor": first, "positive": second},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", config.temperature, encoder.similarity),
            )
        },
        head=mlp,
    )
