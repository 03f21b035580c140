"""The list of methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.method_settings import AnyMethod
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
from sentemb_core.methods.hicl import hicl
from sentemb_core.methods.ict import ict
from sentemb_core.methods.infocse_aux import infocse_aux
from sentemb_core.methods.infocse_idc import infocse_idc
from sentemb_core.methods.is_bert import is_bert
from sentemb_core.methods.method import HeadState, Method
from sentemb_core.methods.mirror_bert import mirror_bert
from sentemb_core.methods.rtd_mlm import rtd_mlm
from sentemb_core.methods.sg_opt import sg_opt
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import sncse

Recipe = Callable[..., Method]
"""(the method's own settings, the encoder that will learn) -> the method; those that continue a
Condenser stage take its head, too."""

TRANSFORMER = "sentences; a transformer"
CONDENSED = "sentences; a transformer and its head from a Condenser stage"


@dataclass(frozen=True)
class Entry:
    """A method, what data it needs, and what it takes for positives.

    Attributes:
        name: As in the settings.
        needs: Which data, and which encoder.
        what: In one line.
        recipe: Makes it.
        takes_head: Whether it continues a Condenser stage.
    """

    name: str
    needs: str
    what: str
    recipe: Recipe
    takes_head: bool = False


CATALOGUE = (
    Entry("infocse_idc", "documents", "sentences of one document in one cluster", infocse_idc),
    Entry("conpono", "documents", "neighbouring sentences of a document", conpono),
    Entry("ict", "documents", "a sentence and the rest of its document", ict),
    Entry("cpc", "documents", "a sentence and what precedes it", cpc),
    Entry("declutr", "long documents; a transformer", "spans of one document", declutr),
    Entry("simcse", TRANSFORMER, "a sentence under two dropouts", simcse),
    Entry("esimcse", TRANSFORMER, "repeated sub-words; a queue of negatives", esimcse),
    Entry("sncse", TRANSFORMER, "a prompted sentence; its negation is a soft negative", sncse),
    Entry("consert", TRANSFORMER, "a sentence under two perturbations", consert),
    Entry("mirror_bert", TRANSFORMER, "a sentence and itself with a span hidden", mirror_bert),
    Entry("hicl", "documents; a transformer", "whole texts, and their segments", hicl),
    Entry("bce", TRANSFORMER, "SimCSE's pairs under a binary loss", bce),
    Entry("ct", TRANSFORMER, "a sentence seen by two encoders", ct),
    Entry("is_bert", TRANSFORMER, "a sentence and its own tokens", is_bert),
    Entry("sg_opt", TRANSFORMER, "a sentence and the layers of a frozen copy", sg_opt),
    Entry("clm_autoencoder", TRANSFORMER, "none: the sentence is written again", clm_autoencoder),
    Entry("mlm_autoencoder", TRANSFORMER, "none: its masks are filled in", mlm_autoencoder),
    Entry("condenser", TRANSFORMER, "none: pre-training that fills masks", condenser),
    Entry("infocse_aux", CONDENSED, "SimCSE, and masks to fill", infocse_aux, takes_head=True),
    Entry("diffcse", CONDENSED, "SimCSE, and edits to see", diffcse, takes_head=True),
    Entry("rtd_mlm", CONDENSED, "SimCSE, masks and edits", rtd_mlm, takes_head=True),
)


def method_for(
    settings: AnyMethod, encoder: Encoder, pretrained: HeadState | None = None
) -> Method:
    """The recipe that `settings` name, for this encoder.

    Args:
        settings: Of one method.
        encoder: What will learn.
        pretrained: Head of the Condenser stage that the encoder comes from.

    Raises:
        RecipeError: its parts and the encoder cannot go together.
    """
    entry = next(entry for entry in CATALOGUE if entry.name == settings.name)
    more: Mapping[str, Any] = {"pretrained": pretrained} if entry.takes_head else {}
    return entry.recipe(settings, encoder, **more)
