"""Autoencoders (product_thesis): a small decoder has to tell the sentence from its vector."""

from sentemb_core.config.methods import CLMAutoencoder, MLMAutoencoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.causal_decoder import CausalDecoder, require_decodable
from sentemb_core.heads.layers import require_table
from sentemb_core.heads.mask_filler import MaskFiller
from sentemb_core.heads.sample_losses import filled_in, rewritten
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method, SampleTerm
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.methods.tokenizer_tools import (
    begins_word,
    masking,
    require_positions,
    require_transformer,
)
from sentemb_core.pairs import sources
from sentemb_core.views.autoencoding import deleted, reconstructed
from sentemb_core.views.masked import with_masked_inputs
from sentemb_core.views.sentences import first


def clm_autoencoder(settings: CLMAutoencoder, encoder: Encoder) -> Method:
    """The decoder writes the sentence word by word; with `noise` it is TSDAE's form."""
    require_transformer(encoder, "clm_autoencoder")
    require_decodable(encoder, tied=settings.tied)
    special = encoder.framed
    if settings.noise and not special:
        raise RecipeError(
            "Where words are deleted, a decoder begins with the token that every text begins with; "
            f"the tokenizer of this encoder ({type(encoder.backbone).__name__}) adds none: start "
            "from one such as 'minilm', or set method.noise to 0"
        )
    text = (
        deleted(first, settings.noise, special_tokens=special, begins_word=begins_word(encoder))
        if settings.noise
        else reconstructed(first)
    )
    layers = None if settings.tied else settings.layers
    method = Method(
        name="clm_autoencoder",
        pairs=sources.identity,
        views={"anchor": text},
        sample_terms={
            "rewritten": (settings.weight, SampleTerm("anchor", rewritten(), settings.per))
        },
        networks=lambda encoder: {"decoder": CausalDecoder(encoder, layers)},
    )
    return beside_simcse(method, settings, encoder)


def mlm_autoencoder(settings: MLMAutoencoder, encoder: Encoder) -> Method:
    """The decoder fills masks of the bare embeddings."""
    require_transformer(encoder, "mlm_autoencoder")
    require_positions(encoder, "mlm_autoencoder's decoder")
    require_table(encoder)
    method = Method(
        name="mlm_autoencoder",
        pairs=sources.identity,
        views={"anchor": with_masked_inputs(first, masking(encoder, settings.mask_rate))},
        sample_terms={"filled_in": (settings.weight, SampleTerm("anchor", filled_in(), "row"))},
        networks=lambda encoder: {"decoder": MaskFiller(encoder, settings.layers)},
    )
    return beside_simcse(method, settings, encoder)


def beside_simcse(
    method: Method, settings: CLMAutoencoder | MLMAutoencoder, encoder: Encoder
) -> Method:
    """The multi-task form of product_thesis: SimCSE on the same vectors, without a head."""
    if not settings.simcse:
        return method
    require_dropout(encoder, method.name)
    term = contrast("anchor", "positive", settings.temperature, encoder.similarity)
    return method.joined(views={"positive": first}, terms={"contrast": (settings.simcse, term)})
