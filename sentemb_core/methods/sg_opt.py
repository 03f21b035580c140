"""SG-OPT (Kim et al. 2021): the sentence vector agrees with the layers of a frozen copy."""

import logging

from sentemb_core.config.methods import SGOPT
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.copies import FrozenCopy
from sentemb_core.heads.gelu_mlp import gelu_mlp
from sentemb_core.methods.method import Method
from sentemb_core.methods.terms.layers import distance_to_start, layer_contrast
from sentemb_core.methods.tokenizer_tools import require_embedding_layer
from sentemb_core.pairs import sources
from sentemb_core.readers.networks import all_layers
from sentemb_core.views.sentences import first

log = logging.getLogger(__name__)

EMBEDDINGS = ("backbone.embeddings.",)
"""Frozen, and shared with the copy."""


def sg_opt(settings: SGOPT, encoder: Encoder) -> Method:
    """Every layer's mean state is a positive; all layers of the others are negatives.

    An encoder that pools by the mean starts as one of its own positives, and is told so.

    Raises:
        RecipeError: the encoder's Dense layers take its vector out of the space of its states.
    """
    require_embedding_layer(encoder, "sg_opt")
    if encoder.layers is not None:
        raise RecipeError(
            "sg_opt compares the sentence vector with the states of all layers, in one space; this "
            f"encoder's Dense layers lead its vector out of theirs ({encoder.hidden_dim} to "
            f"{encoder.dim} wide): start from an encoder without them, or take simcse"
        )
    if encoder.pooling == "mean":
        log.warning(
            "sg_opt draws a vector to the mean states of a frozen copy's layers, and with mean "
            "pooling it is the last of them: little is left to learn; its paper pools by "
            "encoder.pooling=cls_before_pooler"
        )
    return Method(
        name="sg_opt",
        pairs=sources.identity,
        views={"anchor": first, "layers": first},
        readers={"layers": all_layers("start")},
        terms={
            "contrast": (1.0, layer_contrast("anchor", "layers", settings.temperature)),
            "distance": (settings.l2, distance_to_start()),
        },
        head=lambda dim: gelu_mlp(dim, settings.width),
        networks=lambda encoder: {"start": FrozenCopy(encoder, shared=EMBEDDINGS)},
        frozen=EMBEDDINGS,
    )
