"""RTD + MLM (infocse, Table 12): both auxiliary losses on one sentence vector."""

from dataclasses import replace

from sentemb_core.config.methods import RTDMLM, DiffCSE, InfoCSEAux
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.diffcse import diffcse
from sentemb_core.methods.infocse_aux import infocse_aux
from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.method import HeadState, Method, Networks
from sentemb_core.methods.parts.tokenizer_tools import require_transformer


def rtd_mlm(settings: RTDMLM, encoder: Encoder, pretrained: HeadState | None = None) -> Method:
    """InfoCSE-aux joined by DiffCSE's term; both read the same masks.

    The generator's encoder is the encoder at the start, and so are InfoCSE-aux's lower layers
    where they are detached: they are kept once.
    """
    require_transformer(encoder, "rtd_mlm")
    shared = settings.model_dump(include={"temperature", "mask_rate", "random_head"})
    stage = settings.model_dump(include={"detach", "skip_from", "head_layers"})
    filling = InfoCSEAux(weight=settings.mlm, **shared, **stage)
    editing = DiffCSE(weight=settings.rtd, sample=settings.sample, **shared)
    judging = diffcse(editing, encoder, pretrained)
    both = infocse_aux(filling, encoder, pretrained).joined(
        name="rtd_mlm",
        terms={"edits": judging.terms["edits"]},
        networks=judging.networks,
    )
    assert both.networks is not None
    return replace(both, networks=on_one_copy(both.networks))


def on_one_copy(networks: Networks) -> Networks:
    """The same networks from a frozen copy: the generator owns it, frozen layers share it."""
    return lambda encoder: networks(FrozenCopy(encoder))
