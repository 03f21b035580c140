"""Condenser (Gao & Callan 2021): the sentence vector helps to fill masks (infocse)."""

from sentemb_core.config.methods import Condenser
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.masked_language import MaskFiller, condensed, masked_language
from sentemb_core.methods.parts.masking import masked
from sentemb_core.methods.parts.method import Method, SampleTerm
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import masking, require_transformer
from sentemb_core.methods.parts.transformer_layers import require_table, skip_layer
from sentemb_core.methods.parts.views import first


def condenser(settings: Condenser, encoder: Encoder) -> Method:
    """Pre-training with the head's loss and, on the last layer, the encoder's own (late MLM)."""
    require_transformer(encoder, "condenser")
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
