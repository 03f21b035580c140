"""Unsupervised SimCSE (Gao et al. 2021): a sentence under two dropout masks."""

from torch import nn

from sentemb_core.config.methods import SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import mlp
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.masked_language import with_masked_language
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.views import ViewMaker, first


def simcse(settings: SimCSE, encoder: Encoder, text: ViewMaker = first) -> Method:
    """Positive: the second pass over the same sentence. Negatives: second passes of the others.

    With `mlm`, a third pass reads the sentence with masks ("w/ MLM").
    """
    require_dropout(encoder, "simcse")
    method = Method(
        name="simcse",
        pairs=identity,
        views={"anchor": text, "positive": text},
        terms={"contrast": (1.0, contrast("anchor", "positive", settings.temperature))},
        head=mlp,
    )
    if not settings.mlm:
        return method
    return with_masked_language(method, settings, encoder, "masked", text)


def require_dropout(encoder: Encoder, method: str) -> None:
    """Check that two passes over one sentence differ.

    Raises:
        RecipeError: the encoder has no dropout.
    """
    if not any(isinstance(part, nn.Dropout) and part.p > 0 for part in encoder.modules()):
        raise RecipeError(
            f"{method} needs dropout for its two views; this encoder ({encoder.kind}) has none. "
            "Start from a transformer (--encoder minilm), or use conpono or ict"
        )
