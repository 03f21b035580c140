"""DeCLUTR (Giorgi et al. 2021, seed 003): spans of one long document."""

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.language_head import LanguageHead
from sentemb_core.heads.sample_losses import masked_language
from sentemb_core.method_settings import DeCLUTR
from sentemb_core.methods.contrast import all_pairs
from sentemb_core.methods.method import Method, SampleTerm
from sentemb_core.methods.words import masking, require_transformer
from sentemb_core.pairs import sources
from sentemb_core.views.masked import masked
from sentemb_core.views.spans import SpanSampling, anchor_spans, positive_spans


def declutr(settings: DeCLUTR, encoder: Encoder) -> Method:
    """Anchors against the mean of their positives, NT-Xent; masks are filled in the same pass.

    Anchors of one document are negatives of each other, as in the paper.
    """
    require_transformer(encoder, "declutr")
    _require_room(settings, encoder)
    special = encoder.add_special_tokens
    sampling = SpanSampling(
        settings.anchors, settings.positives, settings.shortest, settings.longest, settings.strategy
    )
    term = all_pairs(
        "anchor", "positive", settings.temperature, encoder.similarity, within_document=True
    )
    method = Method(
        name="declutr",
        pairs=sources.long_documents(sampling.least_tokens, special_tokens=special),
        views={
            "anchor": anchor_spans(sampling, special_tokens=special),
            "positives": positive_spans(sampling, special_tokens=special),
        },
        aggregate={"positive": "positives"},
        terms={"contrast": (1.0, term)},
    )
    if not settings.mlm:
        return method
    return method.joined(
        views={"anchor": masked(method.views["anchor"], masking(encoder, settings.mask_rate))},
        sample_terms={"mlm": (settings.mlm, SampleTerm("anchor", masked_language()))},
        networks=lambda encoder: {"language": LanguageHead(encoder)},
    )


def _require_room(settings: DeCLUTR, encoder: Encoder) -> None:
    wanted = settings.longest + 2 * encoder.add_special_tokens
    room = encoder.positions
    if room is not None and room < wanted:
        raise RecipeError(
            f"declutr reads spans of up to {settings.longest} tokens; this encoder has {room} "
            f"positions: set training.method.longest to {room - 2} or less"
        )
