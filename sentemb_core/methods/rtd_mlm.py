"""RTD + MLM (infocse, Table 12): both auxiliary losses on one sentence vector."""

from dataclasses import replace

from sentemb_core.config.methods import RTDMLM, DiffCSE, InfoCSEAux
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.diffcse import diffcse
from sentemb_core.methods.infocse_aux import infocse_aux
from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.method import HeadState, Method, Networks


def rtd_mlm(settings: RTDMLM, encoder: Encoder, pretrained: HeadState | None = None) -> Method:
    """InfoCSE-aux with DiffCSE's term; both use the same masks.

    The encoder of the generator is the start encoder, and so are InfoCSE-aux's detached lower
    layers: both share one frozen copy, which the generator owns.
    """
    shared = settings.model_dump(include={"temperature", "mask_rate", "random_head"})
    stage = settings.model_dump(include={"detach", "skip_from", "head_layers"})
    filling = InfoCSEAux(weight=settings.mlm, **shared, **stage)
    editing = DiffCSE(weight=settings.rtd, sample=settings.sample, **shared)
    filled = infocse_aux(filling, encoder, pretrained)
    judged = diffcse(editing, encoder, pretrained)
    edits = {"edits": judged.terms["edits"]}
    both = filled.joined(name="rtd_mlm", terms=edits, networks=judged.networks)
    assert both.networks is not None
    return replace(both, networks=on_one_copy(both.networks))


def on_one_copy(networks: Networks) -> Networks:
    return lambda encoder: networks(FrozenCopy(encoder))
