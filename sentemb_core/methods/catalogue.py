"""From the settings of a method to its recipe."""

import logging
from collections.abc import Callable, Mapping

from sentemb_core.config.method_list import static_refused
from sentemb_core.config.methods import AnyMethod, temperature_of
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.autoencoders import clm_autoencoder, mlm_autoencoder
from sentemb_core.methods.bce import bce
from sentemb_core.methods.condenser import condenser
from sentemb_core.methods.conpono import conpono
from sentemb_core.methods.consert import consert
from sentemb_core.methods.cpc import cpc
from sentemb_core.methods.ct import ct
from sentemb_core.methods.declutr import declutr
from sentemb_core.methods.diffcse import diffcse
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.fine_tune import fine_tune
from sentemb_core.methods.hicl import hicl
from sentemb_core.methods.ict import ict
from sentemb_core.methods.infocse_aux import infocse_aux
from sentemb_core.methods.infocse_idc import infocse_idc
from sentemb_core.methods.is_bert import is_bert
from sentemb_core.methods.mirror_bert import mirror_bert
from sentemb_core.methods.parts.method import HeadState, Method, require_loss
from sentemb_core.methods.rtd_mlm import rtd_mlm
from sentemb_core.methods.sg_opt import sg_opt
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import sncse
from sentemb_core.types import Similarity

log = logging.getLogger(__name__)

RECIPES: Mapping[str, Callable[..., Method]] = {
    "infocse_idc": infocse_idc,
    "conpono": conpono,
    "ict": ict,
    "cpc": cpc,
    "declutr": declutr,
    "fine_tune": fine_tune,
    "simcse": simcse,
    "esimcse": esimcse,
    "sncse": sncse,
    "consert": consert,
    "mirror_bert": mirror_bert,
    "hicl": hicl,
    "bce": bce,
    "ct": ct,
    "is_bert": is_bert,
    "sg_opt": sg_opt,
    "clm_autoencoder": clm_autoencoder,
    "mlm_autoencoder": mlm_autoencoder,
    "condenser": condenser,
    "infocse_aux": infocse_aux,
    "diffcse": diffcse,
    "rtd_mlm": rtd_mlm,
}
"""(settings, encoder to train) -> method; the last three also take the head of their stage."""


def method_for(
    settings: AnyMethod, encoder: Encoder, pretrained: HeadState | None = None
) -> Method:
    """Return the method of these settings for this encoder; warn if the temperature does not fit.

    `pretrained` is the head of the Condenser stage that made the encoder.

    Raises:
        RecipeError: the method and the encoder do not fit together.
    """
    if settings.encoder != "any" and encoder.kind == "static":
        raise RecipeError(static_refused(settings.name))
    if unfit := unfit_temperature(settings, encoder.similarity):
        log.warning(unfit)
    recipe = RECIPES[settings.name]
    if settings.encoder == "condensed":
        method = recipe(settings, encoder, pretrained)
    else:
        method = recipe(settings, encoder)
    require_loss(method)
    return method


def unfit_temperature(settings: AnyMethod, similarity: Similarity) -> str:
    """Return why the temperature does not fit the similarity (erratum E2); empty if it does."""
    temperature = temperature_of(settings)
    if temperature is None or (temperature < 1) == (similarity == "cosine"):
        return ""
    found = f"{settings.name} divides the encoder's {similarity} by a temperature {temperature:g}"
    if similarity == "dot":
        return (
            f"{found}: the loss saturates. Set method.temperature=1, or encoder.similarity=cosine"
        )
    return (
        f"{found}: cosines are at most 1, so the loss hardly separates positives. Set "
        "encoder.similarity=dot, or a method.temperature below 1 (.05)"
    )
