"""DeCLUTR (Giorgi et al. 2021, declutr): spans of one long document."""

import logging

from sentemb_core.config.methods import DeCLUTR
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.language_head import LanguageHead
from sentemb_core.heads.layers import require_table
from sentemb_core.heads.sample_losses import masked_language
from sentemb_core.methods.contrast import all_pairs
from sentemb_core.methods.method import Method, SampleTerm
from sentemb_core.methods.tokenizer_tools import WITHOUT_MLM, masking, require_transformer
from sentemb_core.pairs import sources
from sentemb_core.views.masked import masked
from sentemb_core.views.spans import SpanSampling, anchor_spans, positive_spans

log = logging.getLogger(__name__)


def declutr(settings: DeCLUTR, encoder: Encoder) -> Method:
    """Anchors against the mean of their positives, NT-Xent; masks are filled in the same pass.

    Anchors of one document are negatives of each other, as in the paper.
    """
    require_transformer(encoder, "declutr")
    special = encoder.framed
    sampling = SpanSampling(
        settings.anchors,
        settings.positives,
        settings.shortest,
        longest_span(settings, encoder),
        settings.strategy,
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
    require_table(encoder, WITHOUT_MLM)
    return method.joined(
        views={"anchor": masked(method.views["anchor"], masking(encoder, settings.mask_rate))},
        sample_terms={"mlm": (settings.mlm, SampleTerm("anchor", masked_language()))},
        networks=lambda encoder: {"language": LanguageHead(encoder)},
    )


def longest_span(settings: DeCLUTR, encoder: Encoder) -> int:
    """Tokens: `settings.longest`, or what the encoder has positions for; less is worth a warning.

    Raises:
        RecipeError: it has fewer than the shortest span needs.
    """
    if encoder.positions is None:
        return settings.longest
    held = min(settings.longest, encoder.positions - 2 * encoder.framed)
    if held < settings.shortest <= settings.longest:
        raise RecipeError(
            f"declutr reads spans of {settings.shortest} to {settings.longest} tokens; this "
            f"encoder holds {held}, of {encoder.positions} positions: set "
            f"training.method.shortest to {held} or less, raise encoder.positions, or start from "
            "an encoder with more"
        )
    if held < settings.longest:
        log.warning(
            "spans are of up to %d tokens, the encoder's positions, where method.longest asks for "
            "%d: a transformer from random weights gets them by encoder.positions",
            held,
            settings.longest,
        )
    return held
