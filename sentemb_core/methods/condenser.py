"""Condenser (Gao & Callan 2021): the sentence vector helps to fill masks (infocse)."""

from typing import Any

from torch import Tensor

from sentemb_core.config.methods import Condenser
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.masked_language import (
    MaskFiller,
    masked,
    masked_language,
    masking,
)
from sentemb_core.methods.parts.method import Learner, Method, Rows, SampleLoss, SampleTerm
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.transformer_layers import require_table, skip_layer, token_table
from sentemb_core.methods.parts.views import first


def condenser(settings: Condenser, encoder: Encoder) -> Method:
    """Pre-training with the head's loss and, on the last layer, the encoder's own (late MLM)."""
    require_table(encoder)
    below = skip_layer(encoder, settings.skip_from)
    late = SampleTerm("masked", masked_language("condenser.language"))
    return Method(
        name="condenser",
        pairs=identity,
        views={"masked": masked(first, masking(encoder, settings.mask_rate))},
        sample_terms={
            "late": (1.0, late),
            "condensed": (1.0, SampleTerm("masked", condensed(below))),
        },
        networks=lambda encoder: {"condenser": MaskFiller(encoder, settings.head_layers)},
        kept=("condenser",),
    )


def condensed(skip_from: int) -> SampleLoss:
    """The head's loss: states of layer `skip_from` and the sentence vector predict the masks."""

    def loss(learner: Learner, rows: Rows) -> Tensor:
        head: Any = learner.networks["condenser"]
        early, table = rows.reading.layers[skip_from], token_table(learner.encoder)
        return head.loss(rows.reading.pooled, early, rows.mask, rows.targets, table)

    return loss
